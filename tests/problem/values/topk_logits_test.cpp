// SPDX-License-Identifier: Apache-2.0
// Logits of the k largest ids of a row, and of ids that are named.
#include "harness/problem/values/topk_logits.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "problem_of.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;

constexpr double kNotSent = -std::numeric_limits<double>::infinity();

/// Rows that a test writes down.
class WrittenRows final : public LogitsSource {
 public:
  explicit WrittenRows(std::vector<std::vector<double>> rows) : rows_(std::move(rows)) {}
  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    std::copy_n(rows_[static_cast<std::size_t>(token)].begin() + begin, out.size(), out.begin());
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    std::vector<double> wide(out.size());
    read(token, begin, std::span<double>(wide));
    std::transform(wide.begin(), wide.end(), out.begin(),
                   [](double x) { return static_cast<float>(x); });
  }

 private:
  std::vector<std::vector<double>> rows_;
};

std::vector<double> row_from(const LogitsSource& source, std::int64_t token, std::size_t count,
                             std::int64_t begin = 0) {
  std::vector<double> row(count);
  source.read(token, begin, std::span<double>(row));
  std::vector<float> narrow(count);
  source.read(token, begin, std::span<float>(narrow));
  for (std::size_t v = 0; v < count; ++v) EXPECT_EQ(narrow[v], static_cast<float>(row[v]));
  return row;
}

std::shared_ptr<const LogitsSource> topk_of(std::vector<double> row, std::int64_t k) {
  const auto vocab = static_cast<std::int64_t>(row.size());
  std::vector<std::vector<double>> rows{std::move(row)};
  return make_topk_logits(std::make_shared<const WrittenRows>(std::move(rows)), vocab, k);
}

TEST(TopkLogits, AreTheKLargest) {
  const std::vector<double> row{1, 5, -2, 4, 3};
  EXPECT_THAT(row_from(*topk_of(row, 1), 0, 5),
              ElementsAre(kNotSent, 5, kNotSent, kNotSent, kNotSent));
  EXPECT_THAT(row_from(*topk_of(row, 3), 0, 5), ElementsAre(kNotSent, 5, kNotSent, 4, 3));
  EXPECT_EQ(row_from(*topk_of(row, 5), 0, 5), row);
}

TEST(TopkLogits, KeepTheLowerIdsOfEqualOnes) {
  EXPECT_THAT(row_from(*topk_of({2, 2, 2, 2}, 1), 0, 4),
              ElementsAre(2, kNotSent, kNotSent, kNotSent));
  EXPECT_THAT(row_from(*topk_of({0, 2, 3, 2, 2}, 3), 0, 5),
              ElementsAre(kNotSent, 2, 3, 2, kNotSent));
}

TEST(TopkLogits, KeepAllOfARowWithFewer) {
  EXPECT_THAT(row_from(*topk_of({kNotSent, 1, kNotSent, 0}, 3), 0, 4),
              ElementsAre(kNotSent, 1, kNotSent, 0));
}

TEST(TopkLogits, AnyPieceReadsAsThePieceOfTheRow) {
  const CaseSpec spec = parse_case("lens=6 vocab=41 values=ties");
  for (const std::int64_t k : {1, 7, 41}) {
    const auto logits =
        make_topk_logits(make_random_logits(spec, std::vector<std::int32_t>(6, 0)), spec.vocab, k);
    for (std::int64_t t = 0; t < 6; ++t) {
      const std::vector<double> row = row_from(*logits, t, 41);
      EXPECT_EQ(std::count(row.begin(), row.end(), kNotSent), 41 - k);
      for (const std::int64_t begin : {0, 13, 40}) {
        const std::vector<double> rest(row.begin() + begin, row.end());
        EXPECT_EQ(row_from(*logits, t, rest.size(), begin), rest);
      }
    }
  }
}

TEST(LogitsAtIds, StandAtTheirIdsInAnyOrder) {
  const auto logits = make_logits_at_ids({3, 0, 1, 4}, {0.5f, -2, 7, 8}, 2);
  EXPECT_THAT(row_from(*logits, 0, 5), ElementsAre(-2, kNotSent, kNotSent, 0.5, kNotSent));
  EXPECT_THAT(row_from(*logits, 1, 5), ElementsAre(kNotSent, 7, kNotSent, kNotSent, 8));
  EXPECT_THAT(row_from(*logits, 0, 2, 3), ElementsAre(0.5, kNotSent));
  EXPECT_THAT(row_from(*logits, 1, 3, 1), ElementsAre(7, kNotSent, kNotSent));
}

TEST(LogitsAtIds, MayBeAllOrOne) {
  EXPECT_THAT(row_from(*make_logits_at_ids({2, 1, 0}, {1, 2, 3}, 3), 0, 3), ElementsAre(3, 2, 1));
  EXPECT_THAT(row_from(*make_logits_at_ids({2}, {1}, 1), 0, 3), ElementsAre(kNotSent, kNotSent, 1));
}

TEST(DrawnTeacher, IsAnotherRowOfTheSameRegime) {
  Problem problem = problem_of("objective=distill lens=4+5 vocab=23");
  EXPECT_EQ(problem.teacher, nullptr);
  draw_teacher(problem);
  EXPECT_EQ(problem.teacher_dtype, DType::f32);
  EXPECT_EQ(problem.teacher, problem.given_teacher);
  const std::vector<double> teacher = row_from(*problem.teacher, 3, 23);
  EXPECT_NE(teacher, row_from(*problem.logits, 3, 23));
  EXPECT_NE(teacher, row_from(*problem.teacher, 4, 23));
  Problem same = problem_of("objective=distill lens=4+5 vocab=23");
  draw_teacher(same);
  EXPECT_EQ(row_from(*same.teacher, 3, 23), teacher);
}

TEST(DrawnTeacher, HasTheKLargestOfThese) {
  Problem all = problem_of("objective=distill lens=4 vocab=23 dtype=bf16");
  Problem top = problem_of("objective=distill lens=4 vocab=23 dtype=bf16 teacher_topk=5");
  draw_teacher(all);
  draw_teacher(top);
  EXPECT_EQ(top.teacher_dtype, DType::bf16);
  EXPECT_EQ(row_from(*top.teacher, 2, 23), row_from(*make_topk_logits(all.teacher, 23, 5), 2, 23));
}

TEST(DrawnTeacher, IsDividedByTheTemperatureAlone) {
  Problem problem =
      problem_of("objective=distill lens=4 vocab=9 temperature=0.5 logit_softcap=3 logit_scale=2");
  draw_teacher(problem);
  std::vector<double> twice = row_from(*problem.given_teacher, 1, 9);
  for (double& x : twice) x *= 2;
  EXPECT_EQ(row_from(*problem.teacher, 1, 9), twice);
}

}  // namespace
}  // namespace lossgrid
