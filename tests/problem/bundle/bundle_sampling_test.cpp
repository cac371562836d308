// SPDX-License-Identifier: Apache-2.0
// Bundles with a sampling mask, and every rule of it.
#include <cstdint>
#include <functional>
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

std::vector<bool> kept_bits(const Problem& problem) {
  std::vector<bool> bits;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    for (std::int64_t v = 0; v < problem.spec.vocab; ++v) {
      bits.push_back(problem.sampling_mask->keeps(t, v));
    }
  }
  return bits;
}

TEST(BundleSampling, IsReadFromAGoldenFileAsItStands) {
  for (const char* name : {"nll_sampling_drop", "nll_sampling_zero", "nll_sampling_linear"}) {
    const Problem problem = read_bundle(golden_path(name)).problem;
    const EditableBundle plain = EditableBundle::read(golden_path(name));
    EXPECT_EQ(problem.zeroes_filtered_targets(), name != std::string("nll_sampling_drop"));
    const std::vector<bool> bits = kept_bits(problem);
    for (std::size_t k = 0; k < bits.size(); ++k) {
      ASSERT_EQ(bits[k], plain.get<std::uint8_t>("sampling_mask", k) != 0) << k;
    }
  }
}

TEST(BundleSampling, SurvivesWriting) {
  const ScratchFile scratch;
  for (const char* text : {"top_k=3", "top_p=0.7", "top_k=5 top_p=0.8 filtered_targets=zero",
                           "top_k=2 hidden=3", "top_k=3 logit_softcap=2 temperature=0.5"}) {
    SCOPED_TRACE(text);
    const Problem problem = problem_of(std::string("lens=5+0+8 mask=all vocab=7 ") + text);
    write_bundle(scratch.path(), problem, std::nullopt);
    const Problem read = read_bundle(scratch.path()).problem;
    EXPECT_EQ(kept_bits(read), kept_bits(problem));
    EXPECT_EQ(read.spec.filtered_targets, problem.spec.filtered_targets);
    EXPECT_EQ(read.token_mask, problem.token_mask);
    EXPECT_EQ(read.denominators.valid_tokens, problem.denominators.valid_tokens);
  }
}

TEST(BundleSampling, ARowThatKeepsNothingIsOneThatIsNotTrainedOn) {
  EditableBundle bundle = EditableBundle::read(golden_path("nll_sampling_zero"));
  const ScratchFile scratch;
  std::size_t masked = 0;  // token of the first sequence that is not trained on
  for (std::size_t t = 1; masked == 0; ++t) {
    if (bundle.get<float>("token_mask", t) == 0) masked = t;
  }
  ASSERT_LT(masked, 9u);
  for (std::size_t v = 0; v < 101; ++v) {
    bundle.set("sampling_mask", (masked - 1) * 101 + v, std::uint8_t{0});
  }
  EXPECT_NO_THROW(read_bundle(scratch.write(bundle.bytes())));
  bundle.set("token_mask", masked, 1.0f);
  expect_bad_input([&] { read_bundle(scratch.write(bundle.bytes())); },
                   {"\"sampling_mask\"", "row " + std::to_string(masked - 1), "has no 1"});
}

TEST(BundleSampling, RulesAreNamed) {
  struct Rule {
    std::function<void(EditableBundle&)> breaks;
    std::vector<std::string> parts;
  };
  const std::vector<Rule> rules{
      {[](EditableBundle& b) { b.set("sampling_mask", 103, std::uint8_t{2}); },
       {"\"sampling_mask\"", "2 at index [1, 2]", "must be 0 or 1"}},
      {[](EditableBundle& b) {
         b.header["sampling_mask"]["shape"] = {101, 32};
       },
       {"\"sampling_mask\"", "[T, V]"}},
      {[](EditableBundle& b) { b.header["sampling_mask"]["dtype"] = "BOOL"; },
       {"\"sampling_mask\"", "BOOL"}},
      {[](EditableBundle& b) { b.header["__metadata__"]["filtered_targets"] = "skip"; },
       {"filtered_targets", "skip", "drop or zero"}},
      {[](EditableBundle& b) { b.remove("sampling_mask"); }, {"filtered_targets", "sampling_mask"}},
  };
  const ScratchFile scratch;
  for (const Rule& rule : rules) {
    EditableBundle bundle = EditableBundle::read(golden_path("nll_sampling_zero"));
    rule.breaks(bundle);
    expect_bad_input([&] { read_bundle(scratch.write(bundle.bytes())); }, rule.parts);
  }
}

}  // namespace
}  // namespace lossgrid
