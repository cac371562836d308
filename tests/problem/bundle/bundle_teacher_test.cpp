// SPDX-License-Identifier: Apache-2.0
// Bundles with the logits of a teacher, of all ids or of its top k, and every rule of them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "expect_error.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/bundle/safetensors.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

constexpr float kBuried = -std::numeric_limits<float>::infinity();

std::vector<double> rows_of(const LogitsSource& source, const Problem& problem) {
  const auto vocab = static_cast<std::size_t>(problem.spec.vocab);
  std::vector<double> all;
  std::vector<double> row(vocab);
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    source.read(t, 0, std::span<double>(row));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// distill_forward, of 34 tokens and 80 ids, without its teacher.
EditableBundle without_teacher() {
  EditableBundle bundle = EditableBundle::read(golden_path("distill_forward"));
  bundle.remove("teacher_logits");
  return bundle;
}

/// The same with ids 7 t, 7 t + 1, ... modulo 80 of every row t, and the logits 0, 1, 2, ...
EditableBundle with_topk(std::int64_t k) {
  std::vector<std::int32_t> ids;
  std::vector<float> logits;
  for (std::int32_t at = 0; at < 34 * k; ++at) {
    ids.push_back((7 * (at / static_cast<std::int32_t>(k)) + at % static_cast<std::int32_t>(k)) %
                  80);
    logits.push_back(static_cast<float>(at));
  }
  EditableBundle bundle = without_teacher();
  bundle.add("teacher_topk_ids", "I32", {34, k}, raw_bytes(ids));
  bundle.add("teacher_topk_logits", "F32", {34, k}, raw_bytes(logits));
  return bundle;
}

TEST(BundleTeacher, IsReadFromAGoldenFileAsItStands) {
  const Problem problem = read_bundle(golden_path("distill_forward")).problem;
  const EditableBundle plain = EditableBundle::read(golden_path("distill_forward"));
  EXPECT_EQ(problem.spec.teacher_topk, 0);
  EXPECT_EQ(problem.teacher_dtype, DType::f32);
  const std::vector<double> rows = rows_of(*problem.teacher, problem);
  ASSERT_EQ(rows.size(), 34u * 80);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    EXPECT_EQ(rows[k], plain.get<float>("teacher_logits", k)) << k;
  }
}

TEST(BundleTeacher, IsMinusInfinityOutsideOfItsTopK) {
  const ScratchFile scratch;
  const Problem problem = read_bundle(scratch.write(with_topk(3).bytes())).problem;
  EXPECT_EQ(problem.spec.teacher_topk, 3);
  const std::vector<double> rows = rows_of(*problem.teacher, problem);
  for (std::int64_t t = 0; t < 34; ++t) {
    for (std::int64_t v = 0; v < 80; ++v) {
      const std::int64_t place = (v - 7 * t % 80 + 80) % 80;
      const double want = place < 3 ? static_cast<double>(3 * t + place) : kBuried;
      EXPECT_EQ(rows[static_cast<std::size_t>(80 * t + v)], want) << t << ' ' << v;
    }
  }
}

TEST(BundleTeacher, SurvivesWriting) {
  const ScratchFile scratch;
  for (const char* text :
       {"dtype=f32", "dtype=bf16", "dtype=f64", "dtype=f32 teacher_topk=1",
        "dtype=bf16 teacher_topk=4", "dtype=f32 teacher_topk=7", "teacher_topk=4 temperature=0.7",
        "temperature=0.7 sequence_temperatures=true", "values=masked_vocab teacher_topk=6",
        "hidden=3 teacher_topk=2", "values=ties teacher_topk=3"}) {
    SCOPED_TRACE(text);
    Problem problem = problem_of(std::string("objective=distill lens=5+0+8 vocab=7 ") + text);
    draw_teacher(problem);
    write_bundle(scratch.path(), problem, std::nullopt);
    const Problem read = read_bundle(scratch.path()).problem;
    EXPECT_EQ(read.spec.objective, problem.spec.objective);
    EXPECT_EQ(read.spec.teacher_topk, problem.spec.teacher_topk);
    // Logits of a top k are float32.
    const bool is_bf16 = problem.spec.teacher_topk == 0 && problem.spec.dtype == DType::bf16;
    EXPECT_EQ(read.teacher_dtype, is_bf16 ? DType::bf16 : DType::f32);
    EXPECT_EQ(rows_of(*read.given_teacher, read), rows_of(*problem.given_teacher, problem));
    EXPECT_EQ(rows_of(*read.teacher, read), rows_of(*problem.teacher, problem));
  }
}

TEST(BundleTeacher, SurvivesWritingAsHiddenStates) {
  const ScratchFile scratch;
  for (const char* text : {"dtype=f32 temperature=0.7", "dtype=bf16", "dtype=f64",
                           "dtype=f32 hidden=3 sequence_temperatures=true"}) {
    SCOPED_TRACE(text);
    Problem problem =
        problem_of(std::string("objective=distill lens=5+0+8 vocab=7 teacher_hidden=4 ") + text);
    draw_teacher(problem);
    write_bundle(scratch.path(), problem, std::nullopt);
    EXPECT_FALSE(SafetensorsFile::read(scratch.path()).has("teacher_logits"));
    const Problem read = read_bundle(scratch.path()).problem;
    EXPECT_EQ(read.spec.teacher_hidden, 4);
    EXPECT_EQ(read.teacher_dtype, problem.spec.dtype == DType::bf16 ? DType::bf16 : DType::f32);
    EXPECT_EQ(read.teacher_projection->hidden, problem.teacher_projection->hidden);
    EXPECT_EQ(read.teacher_projection->weight, problem.teacher_projection->weight);
    EXPECT_EQ(rows_of(*read.teacher, read), rows_of(*problem.teacher, problem));
    EXPECT_FALSE(read.teacher->given());
  }
}

TEST(BundleTeacher, SurvivesWritingAsLogprobsThatNothingDivides) {
  const ScratchFile scratch;
  for (const char* text : {"dtype=f32 temperature=0.7", "dtype=bf16 sequence_temperatures=true"}) {
    SCOPED_TRACE(text);
    Problem problem =
        problem_of(std::string("objective=distill lens=5+8 vocab=7 teacher_topk=4 ") + text);
    draw_teacher(problem, true);
    write_bundle(scratch.path(), problem, std::nullopt);
    EXPECT_FALSE(SafetensorsFile::read(scratch.path()).has("teacher_topk_logits"));
    const Problem read = read_bundle(scratch.path()).problem;
    EXPECT_TRUE(read.teacher_sends_logprobs);
    const std::vector<double> rows = rows_of(*read.teacher, read);
    EXPECT_EQ(rows, rows_of(*problem.given_teacher, problem));
    EXPECT_EQ(rows, rows_of(*read.given_teacher, read));
    for (std::size_t t = 0; t < 13; ++t) {
      double sum = 0;
      int sent = 0;
      for (std::size_t v = 0; v < 7; ++v) {
        EXPECT_LE(rows[7 * t + v], 0);
        sum += std::exp(rows[7 * t + v]);
        sent += rows[7 * t + v] == kBuried ? 0 : 1;
      }
      EXPECT_EQ(sent, 4);
      EXPECT_GT(sum, 4.0 / 7);
      EXPECT_LT(sum, 1);
    }
  }
}

TEST(BundleTeacher, IsOfTheKindThatTheDivergenceTakes) {
  const Divergence clamped{Divergence::Kind::forward, 0.5, Divergence::Topk::clamped};
  Problem logprobs = problem_of("objective=distill lens=5+8 vocab=7 teacher_topk=4");
  draw_teacher(logprobs, true);
  EXPECT_NO_THROW(require_teacher(logprobs, clamped));
  expect_bad_input([&] { require_teacher(logprobs); }, {"teacher_logits is missing"});
  Problem logits = problem_of("objective=distill lens=5+8 vocab=7 teacher_topk=4");
  draw_teacher(logits);
  EXPECT_NO_THROW(require_teacher(logits));
  expect_bad_input([&] { require_teacher(logits, clamped); }, {"teacher_topk_logprobs"});
  Problem all = problem_of("objective=distill lens=5+8 vocab=7");
  draw_teacher(all, true);
  expect_bad_input([&] { require_teacher(all, clamped); }, {"needs the top k of a teacher"});
}

TEST(BundleTeacher, IsWrittenAsItWasRead) {
  const ScratchFile scratch;
  for (const std::int64_t k : {1, 3, 80}) {
    const Problem first = read_bundle(scratch.write(with_topk(k).bytes())).problem;
    write_bundle(scratch.path(), first, std::nullopt);
    const SafetensorsFile file = SafetensorsFile::read(scratch.path());
    EXPECT_FALSE(file.has("teacher_logits"));
    EXPECT_EQ(file.tensor("teacher_topk_ids").shape, (std::vector<std::int64_t>{34, k}));
    const Problem second = read_bundle(scratch.path()).problem;
    EXPECT_EQ(rows_of(*second.teacher, second), rows_of(*first.teacher, first));
  }
}

/// Rows that are not trained on may hold anything.
TEST(BundleTeacher, KeepsWhatIsNoNumber) {
  const ScratchFile scratch;
  EditableBundle edited = with_topk(3);
  edited.set("teacher_topk_logits", 4, std::nanf(""));  // of id 8 in row 1
  edited.set("teacher_topk_logits", 3, kBuried);
  const Problem first = read_bundle(scratch.write(edited.bytes())).problem;
  write_bundle(scratch.path(), first, std::nullopt);
  const Problem second = read_bundle(scratch.path()).problem;
  const std::vector<double> rows = rows_of(*second.teacher, second);
  EXPECT_EQ(rows[80 + 7], kBuried);
  EXPECT_TRUE(std::isnan(rows[80 + 8]));
  EXPECT_EQ(rows[80 + 9], 5);
  EXPECT_EQ(rows[80], kBuried);
}

TEST(BundleTeacher, BreaksNoRule) {
  struct Violation {
    std::function<EditableBundle()> bundle;
    std::vector<std::string> parts;
  };
  const auto topk_with = [](std::size_t at, std::int32_t id) {
    return [=] {
      EditableBundle bundle = with_topk(3);
      bundle.set("teacher_topk_ids", at, id);
      return bundle;
    };
  };
  const auto with_tensor = [](const char* name, const char* dtype, std::int64_t rows,
                              std::int64_t columns, std::size_t bytes) {
    return [=] {
      EditableBundle bundle = without_teacher();
      bundle.add(name, dtype, {rows, columns}, std::string(bytes, '\0'));
      return bundle;
    };
  };
  const auto topk_without = [](const char* tensor) {
    return [=] {
      EditableBundle bundle = with_topk(3);
      bundle.remove(tensor);
      return bundle;
    };
  };
  const auto hidden_of = [](std::int64_t rows, std::int64_t size, std::int64_t ids,
                            std::int64_t of_id, const char* also = "") {
    return [=] {
      EditableBundle bundle = without_teacher();
      const auto zeros = [](std::int64_t count) {
        return std::string(static_cast<std::size_t>(count) * 4, '\0');
      };
      if (rows > 0) bundle.add("teacher_hidden", "F32", {rows, size}, zeros(rows * size));
      if (ids > 0) bundle.add("teacher_weight", "F32", {ids, of_id}, zeros(ids * of_id));
      if (also[0] != '\0') bundle.add(also, "F32", {34, 80}, zeros(34 * 80));
      return bundle;
    };
  };
  const auto topk_and_all = [] {
    EditableBundle bundle = with_topk(3);
    bundle.add("teacher_logits", "F32", {34, 80}, std::string(34 * 80 * 4, '\0'));
    return bundle;
  };
  const auto topk_of_another_size = [] {
    EditableBundle bundle = with_topk(3);
    bundle.remove("teacher_topk_logits");
    bundle.add("teacher_topk_logits", "F32", {34, 2}, std::string(34 * 2 * 4, '\0'));
    return bundle;
  };
  const std::vector<Violation> violations{
      {topk_with(7, 80), {"teacher_topk_ids", "id 80 at row 2, column 1", "[0, V = 80)"}},
      {topk_with(0, -1), {"teacher_topk_ids", "id -1 at row 0, column 0", "[0, V = 80)"}},
      {topk_with(5, 7), {"teacher_topk_ids", "id 7 at row 1, column 2", "must hold each id once"}},
      {with_tensor("teacher_topk_ids", "I32", 34, 81, 34 * 81 * 4),
       {"teacher_topk_ids", "k = 81", "[1, V = 80]"}},
      {with_tensor("teacher_topk_ids", "I32", 34, 0, 0), {"teacher_topk_ids", "k = 0"}},
      {with_tensor("teacher_topk_ids", "I32", 33, 3, 33 * 3 * 4), {"teacher_topk_ids", "[T, k]"}},
      {with_tensor("teacher_topk_ids", "I64", 34, 3, 34 * 3 * 8), {"teacher_topk_ids", "I32"}},
      {topk_without("teacher_topk_logits"), {"\"teacher_topk_logits\"", "missing"}},
      {topk_without("teacher_topk_ids"), {"\"teacher_topk_ids\"", "missing"}},
      {topk_of_another_size, {"teacher_topk_logits", "[T, k]"}},
      {topk_and_all, {"teacher_logits as well as teacher_topk_ids", "must hold one of them"}},
      {hidden_of(33, 6, 80, 6), {"teacher_hidden", "[T, N]"}},
      {hidden_of(34, 6, 79, 6), {"teacher_weight", "[V of the student, N]"}},
      {hidden_of(34, 6, 80, 5), {"teacher_weight", "[V of the student, N]"}},
      {hidden_of(34, 0, 80, 0), {"teacher_hidden", "a hidden size of 0"}},
      {hidden_of(34, 6, 0, 0), {"\"teacher_weight\"", "missing"}},
      {hidden_of(0, 0, 80, 6), {"\"teacher_hidden\"", "missing"}},
      {hidden_of(34, 6, 80, 6, "teacher_logits"),
       {"teacher_logits as well as teacher_hidden", "must hold one of them"}},
      {hidden_of(34, 6, 80, 6, "teacher_topk_logits"),
       {"teacher_hidden or teacher_weight as well as teacher_topk_ids", "must hold one of them"}},
      {with_tensor("teacher_logits", "F32", 34, 79, 34 * 79 * 4), {"teacher_logits", "[T, V]"}},
      {with_tensor("teacher_logits", "F32", 33, 80, 33 * 80 * 4), {"teacher_logits", "[T, V]"}},
      {with_tensor("teacher_logits", "F64", 34, 80, 34 * 80 * 8), {"teacher_logits", "F32"}},
  };
  const ScratchFile scratch;
  for (const Violation& violation : violations) {
    SCOPED_TRACE(testing::PrintToString(violation.parts));
    scratch.write(violation.bundle().bytes());
    std::vector<std::string> parts = violation.parts;
    parts.push_back(scratch.path());
    expect_bad_input([&] { read_bundle(scratch.path()); }, parts);
  }
}

TEST(BundleTeacher, IsNeededByDistill) {
  const ScratchFile scratch;
  const Problem problem = read_bundle(scratch.write(without_teacher().bytes())).problem;
  EXPECT_EQ(problem.teacher, nullptr);
  expect_bad_input([&] { require_teacher(problem); },
                   {scratch.path(), "teacher_logits is missing", "distill"});
  EXPECT_NO_THROW(require_teacher(read_bundle(scratch.write(with_topk(3).bytes())).problem));
}

TEST(CaseTeacher, SendsNoMoreIdsThanThereAre) {
  EXPECT_NO_THROW(problem_of("objective=distill lens=5 vocab=7 teacher_topk=7"));
  expect_bad_input([] { problem_of("objective=distill lens=5 vocab=7 teacher_topk=8"); },
                   {"teacher_topk = 8", "[0, vocab = 7]"});
}

}  // namespace
}  // namespace lossgrid
