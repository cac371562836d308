// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/bundle.h"

#include <bit>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "expect_error.h"
#include "harness/problem/bundle/safetensors.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

template <typename T>
std::vector<T> row_of(const Problem& problem, std::int64_t token) {
  std::vector<T> row(static_cast<std::size_t>(problem.spec.vocab));
  problem.logits->read(token, 0, std::span<T>(row));
  return row;
}

void expect_same_problem(const Problem& a, const Problem& b) {
  EXPECT_EQ(a.lengths, b.lengths);
  EXPECT_EQ(a.cu_seqlens, b.cu_seqlens);
  EXPECT_EQ(a.input_ids, b.input_ids);
  EXPECT_EQ(a.token_mask, b.token_mask);
  EXPECT_EQ(a.sample_mask, b.sample_mask);
  EXPECT_EQ(a.denominators, b.denominators);
  EXPECT_EQ(a.spec.objective, b.spec.objective);
  EXPECT_EQ(a.spec.vocab, b.spec.vocab);
  EXPECT_EQ(a.spec.dtype, b.spec.dtype);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.rewards, b.rewards);
  for (std::int64_t t = 0; t < a.tokens(); ++t) {
    const std::vector<double> x = row_of<double>(a, t);
    const std::vector<double> y = row_of<double>(b, t);
    // Bits, so that NaN and signed zeros count.
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(double)), 0) << "row " << t;
  }
}

TEST(Bundle, ReadsEveryGoldenFile) {
  for (const std::string& name : golden_names()) {
    SCOPED_TRACE(name);
    const Bundle bundle = read_bundle(golden_path(name));
    const Problem& problem = bundle.problem;
    const auto tokens = static_cast<std::size_t>(problem.tokens());
    EXPECT_EQ(describe(problem.source), golden_path(name));
    EXPECT_EQ(problem.spec.name, name);
    EXPECT_FALSE(problem.poison_true_rows);
    EXPECT_THAT(problem.input_ids, SizeIs(tokens));
    EXPECT_THAT(problem.token_mask, SizeIs(tokens));
    EXPECT_THAT(problem.sample_mask, SizeIs(problem.lengths.size()));
    EXPECT_EQ(bundle.nan_or_inf_logits, 0);
    ASSERT_TRUE(bundle.expected.has_value());
    EXPECT_THAT(bundle.expected->logprobs, SizeIs(tokens));
    EXPECT_GT(bundle.expected->metrics.count("loss"), 0u);
    const bool linear = name.find("linear") != std::string::npos;
    const auto vocab = static_cast<std::size_t>(problem.spec.vocab);
    EXPECT_EQ(problem.projection != nullptr, linear);
    const std::size_t size = linear ? static_cast<std::size_t>(problem.projection->size) : 0;
    EXPECT_THAT(bundle.expected->grad_logits, SizeIs(linear ? 0 : tokens * vocab));
    EXPECT_THAT(bundle.expected->grad_hidden, SizeIs(tokens * size));
    EXPECT_THAT(bundle.expected->grad_weight, SizeIs(vocab * size));
    EXPECT_EQ(parse_case(format_case(problem.spec)), problem.spec);
  }
}

TEST(Bundle, TakesValuesAsTheyStand) {
  const Bundle bundle = read_bundle(golden_path("nll_bf16_vocab_edges"));
  const EditableBundle plain = EditableBundle::read(golden_path("nll_bf16_vocab_edges"));
  const Problem& problem = bundle.problem;
  EXPECT_EQ(problem.spec.dtype, DType::bf16);
  EXPECT_EQ(problem.spec.vocab, 128);
  EXPECT_EQ(problem.tokens(), 44);
  EXPECT_EQ(problem.spec.objective, ObjectiveSpec{});
  EXPECT_EQ(problem.denominators, (Denominators{41, 3}));
  EXPECT_EQ(bundle.expected->metrics.at("num_unmasked_tokens"), 41);
  EXPECT_EQ(bundle.expected->loss, plain.get<double>("expected.loss", 0));
  for (std::size_t t = 0; t < 44; ++t) {
    EXPECT_EQ(problem.input_ids[t], plain.get<std::int32_t>("input_ids", t));
    const auto row = row_of<double>(problem, static_cast<std::int64_t>(t));
    for (std::size_t k = 0; k < 128; ++k) {
      const auto bits = plain.get<std::uint16_t>("logits", t * 128 + k);
      EXPECT_EQ(row[k], std::bit_cast<float>(std::uint32_t{bits} << 16));
    }
    EXPECT_EQ(bundle.expected->logprobs[t], plain.get<double>("expected.logprobs", t));
  }
  // A part of a row, as a TP rank reads it.
  std::vector<float> part(32);
  problem.logits->read(7, 96, std::span<float>(part));
  const auto row = row_of<float>(problem, 7);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), row.begin() + 96));
}

TEST(Bundle, KnowsEmptySequencesAndOptions) {
  const Problem empty = read_bundle(golden_path("nll_empty_and_single")).problem;
  EXPECT_THAT(empty.lengths, testing::Contains(0));
  EXPECT_THAT(empty.lengths, testing::Contains(1));
  EXPECT_EQ(case_lengths(empty.spec), empty.lengths);

  const Problem tis = read_bundle(golden_path("grpo_tis")).problem;
  EXPECT_EQ(tis.spec.objective.kind, "clipped_pg");
  EXPECT_EQ(tis.spec.objective.options.at("truncated_importance_sampling_type"), "\"tis\"");
  EXPECT_EQ(tis.spec.objective.options.at("truncated_importance_sampling_ratio"), "1.2");
  EXPECT_EQ(tis.spec.objective.options.at("use_importance_sampling_correction"), "true");

  const Problem linear = read_bundle(golden_path("nll_linear")).problem;
  EXPECT_EQ(linear.spec.vocab, 80);
  EXPECT_EQ(linear.spec.dtype, DType::f32);
}

TEST(Bundle, SpecHoldsTheMasks) {
  const Problem problem = read_bundle(golden_path("nll_basic")).problem;
  std::string bits;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    if (i > 0) bits += '+';
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      bits += problem.token_mask[t] != 0 ? '1' : '0';
    }
  }
  EXPECT_EQ(problem.spec.mask, bits);
  EXPECT_EQ(problem.spec.sample_mask, "1111");
}

TEST(Bundle, GoldenFilesSurviveWritingBitForBit) {
  const ScratchFile scratch;
  for (const std::string& name : golden_names()) {
    SCOPED_TRACE(name);
    const Bundle first = read_bundle(golden_path(name));
    write_bundle(scratch.path(), first.problem, first.expected);
    const Bundle second = read_bundle(scratch.path());
    expect_same_problem(first.problem, second.problem);
    ASSERT_TRUE(second.expected.has_value());
    EXPECT_EQ(second.expected->loss, first.expected->loss);
    EXPECT_EQ(second.expected->logprobs, first.expected->logprobs);
    EXPECT_EQ(second.expected->grad_logits, first.expected->grad_logits);
    EXPECT_EQ(second.expected->grad_hidden, first.expected->grad_hidden);
    EXPECT_EQ(second.expected->grad_weight, first.expected->grad_weight);
    EXPECT_EQ(second.expected->metrics, first.expected->metrics);
  }
}

TEST(Bundle, CasesSurviveWritingBitForBit) {
  const ScratchFile scratch;
  for (const std::string text :
       {"lens=5+8+1+3 vocab=13", "lens=5+0+2 vocab=7 dtype=bf16 mask=sparse",
        "lens=5+8 vocab=7 dtype=f64 sample_mask=01 global_valid_toks=1000 global_valid_seqs=7",
        "lens=4+4 vocab=40 values=masked_vocab dtype=bf16", "lens=0 vocab=3", "seqs=0 vocab=3",
        "lens=3 vocab=5 objective.label_smoothing=0.1 objective.name=word"}) {
    SCOPED_TRACE(text);
    const Problem problem = make_problem(parse_case(text));
    write_bundle(scratch.path(), problem, std::nullopt);
    const Bundle bundle = read_bundle(scratch.path());
    expect_same_problem(problem, bundle.problem);
    EXPECT_FALSE(bundle.expected.has_value());
    EXPECT_EQ(bundle.problem.spec.global_valid_toks, problem.spec.global_valid_toks);
    EXPECT_EQ(case_lengths(bundle.problem.spec), problem.lengths);
  }
}

TEST(Bundle, AnyLogitsAreTakenAndCounted) {
  const ScratchFile scratch;
  EditableBundle edited = EditableBundle::read(golden_path("nll_basic"));
  edited.set<std::uint32_t>("logits", 0, 0xff800000u);   // -inf: a masked vocabulary id
  edited.set<std::uint32_t>("logits", 1, 0x7f800000u);   // inf
  edited.set<std::uint32_t>("logits", 97, 0x7fc12345u);  // a NaN with a payload
  const Bundle bundle = read_bundle(scratch.write(edited.bytes()));
  EXPECT_EQ(bundle.nan_or_inf_logits, 2);

  write_bundle(scratch.path(), bundle.problem, std::nullopt);
  const EditableBundle written = EditableBundle::read(scratch.path());
  EXPECT_EQ(written.get<std::uint32_t>("logits", 0), 0xff800000u);
  EXPECT_EQ(written.get<std::uint32_t>("logits", 97), 0x7fc12345u);
}

TEST(Bundle, OptionalPartsMayBeLeftOut) {
  const ScratchFile scratch;
  EditableBundle edited = EditableBundle::read(golden_path("nll_basic"));
  for (const std::string name :
       {"sample_mask", "expected.loss", "expected.logprobs", "expected.grad_logits"}) {
    edited.remove(name);
  }
  edited.metadata().erase("expected_metrics");
  edited.metadata()["author"] = "somebody";
  edited.add("something_else", "U8", {2}, "xy");
  const Bundle bundle = read_bundle(scratch.write(edited.bytes()));
  EXPECT_THAT(bundle.problem.sample_mask, ElementsAre(1, 1, 1, 1));
  EXPECT_FALSE(bundle.expected.has_value());
}

TEST(Bundle, WideIdsAndGlobalDenominators) {
  const ScratchFile scratch;
  EditableBundle edited = EditableBundle::read(golden_path("nll_basic"));
  std::string wide;
  for (std::size_t t = 0; t < 40; ++t) {
    const std::int64_t id = edited.get<std::int32_t>("input_ids", t);
    wide.append(reinterpret_cast<const char*>(&id), 8);
  }
  edited.remove("input_ids");
  edited.add("input_ids", "I64", {40}, wide);
  edited.metadata()["global_valid_toks"] = "1000";
  edited.metadata()["global_valid_seqs"] = "64";
  const Problem problem = read_bundle(scratch.write(edited.bytes())).problem;
  EXPECT_EQ(problem.input_ids, read_bundle(golden_path("nll_basic")).problem.input_ids);
  EXPECT_EQ(problem.denominators, (Denominators{1000, 64}));
  EXPECT_EQ(problem.spec.global_valid_toks, 1000);
}

TEST(Bundle, KeepsMultiplesAndEntropies) {
  const ScratchFile scratch;
  const Problem problem =
      make_problem(parse_case("lens=2+1 vocab=3 pad_multiple=3 bin_multiple=4"));
  BundleResults expected;
  expected.loss = 0.5;
  expected.logprobs = {0, -1, 0};
  expected.entropy = {0, 0.75, 0};
  expected.grad_logits.assign(9, 0);
  write_bundle(scratch.path(), problem, expected);
  const Bundle read = read_bundle(scratch.path());
  EXPECT_EQ(read.problem.spec.pad_multiple, 3);
  EXPECT_EQ(read.problem.spec.bin_multiple, 4);
  EXPECT_EQ(pack(read.problem, Grid{}).cu_seqlens_padded, pack(problem, Grid{}).cu_seqlens_padded);
  EXPECT_EQ(read.expected->entropy, expected.entropy);

  EditableBundle edited = EditableBundle::read(scratch.path());
  edited.metadata()["pad_multiple"] = "0";
  expect_bad_input([&] { read_bundle(scratch.write(edited.bytes())); },
                   {"__metadata__.pad_multiple", "0"});
  edited = EditableBundle::read(golden_path("nll_basic"));
  EXPECT_TRUE(read_bundle(golden_path("nll_basic")).expected->entropy.empty());
  edited.add("expected.entropy", "F64", {40}, std::string(40 * 8, '\0'));
  edited.set("expected.entropy", 0, 0.25);
  expect_bad_input([&] { read_bundle(scratch.write(edited.bytes())); },
                   {"\"expected.entropy\"", "0.25 at index 0", "first token"});
}

TEST(Bundle, ResultsHaveBareNames) {
  const ScratchFile scratch;
  BundleResults results;
  results.loss = 1.5;
  results.logprobs = {0, -1.25};
  results.entropy = {0, 0.5};
  results.grad_logits = {0.5, -0.5, 0, 0, 0, 0};
  results.metrics = {{"loss", 1.5}, {"bad", std::numeric_limits<double>::quiet_NaN()}};
  write_results(scratch.path(), 2, results);
  const SafetensorsFile file = SafetensorsFile::read(scratch.path());
  EXPECT_THAT(file.names(), ElementsAre("entropy", "grad_logits", "logprobs", "loss"));
  EXPECT_EQ(file.tensor("entropy").at<double>(1), 0.5);
  EXPECT_EQ(file.tensor("loss").at<double>(0), 1.5);
  EXPECT_THAT(file.tensor("logprobs").shape, ElementsAre(2));
  EXPECT_THAT(file.tensor("grad_logits").shape, ElementsAre(2, 3));
  EXPECT_EQ(file.tensor("grad_logits").at<double>(1), -0.5);
  EXPECT_EQ(file.metadata().at("metrics"), R"({"bad":null,"loss":1.5})");
}

TEST(Bundle, ResultsMayHoldGradientsOfHiddenStatesAndWeight) {
  const ScratchFile scratch;
  BundleResults results;
  results.logprobs = {0, -1.25};
  results.grad_hidden = {1, 2, 3, 4, 5, 6};                    // [2, 3]
  results.grad_weight = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8};  // [4, 3]
  write_results(scratch.path(), 2, results);
  const SafetensorsFile file = SafetensorsFile::read(scratch.path());
  EXPECT_THAT(file.names(), ElementsAre("grad_hidden", "grad_weight", "logprobs"));
  EXPECT_THAT(file.tensor("grad_hidden").shape, ElementsAre(2, 3));
  EXPECT_THAT(file.tensor("grad_weight").shape, ElementsAre(4, 3));
  EXPECT_EQ(file.tensor("grad_hidden").at<double>(5), 6);
  EXPECT_EQ(file.tensor("grad_weight").at<double>(11), 8);
}

}  // namespace
}  // namespace lossgrid
