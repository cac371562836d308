// SPDX-License-Identifier: Apache-2.0
// Gradients of a bigram that count sequences otherwise than once, made by plain loops.
#include "harness/verify/diagnosis/sequence_parts.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "linear_emulation.h"

namespace lossgrid {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::Pointwise;

constexpr std::int64_t kBigramVocab = 24;
constexpr double kBigramTemperature = 0.8;

class SequencePartsTest : public ::testing::Test {
 protected:
  /// Returns the gradient [V, H] of the mean NLL with a weight for each sequence.
  std::vector<double> gradient(const std::vector<double>& weights) const {
    const Problem& problem = case_.problem;
    std::vector<double> out(kBigramVocab * kBigramVocab, 0.0);
    std::vector<double> z(kBigramVocab);
    double valid = 0;
    for (std::int64_t t = 0; t < problem.tokens(); ++t) valid += case_.truth.rows[t].valid;
    for (std::int64_t t = 0; t < problem.tokens(); ++t) {
      if (!case_.truth.rows[t].valid) continue;
      problem.logits->read(t, 0, z);
      double sum = 0;
      for (const double x : z) sum += std::exp(x);
      for (std::int64_t v = 0; v < kBigramVocab; ++v) {
        const double dz = std::exp(z[v]) / sum - (v == case_.truth.rows[t].target ? 1 : 0);
        const float* hidden = problem.projection->hidden_row(t);
        const double weight = weights[problem.sequence_of(t)] / valid / kBigramTemperature;
        for (std::int64_t h = 0; h < kBigramVocab; ++h)
          out[v * kBigramVocab + h] += weight * dz * hidden[h];
      }
    }
    return out;
  }

  SequenceParts parts(const std::vector<double>& got) const {
    return *sequence_parts(case_.problem, case_.truth, vocab_shard(kBigramVocab, 1, 0), got);
  }

  const LinearCase case_ = make_linear_case(
      "lens=9+14+5+7 mask=all vocab=24 hidden=24 hidden_values=one_hot temperature=0.8");
};

TEST_F(SequencePartsTest, FindTheWeights) {
  const std::vector<double> weights{4, 2, 1, 0};
  EXPECT_THAT(parts(gradient(weights)).weights(), Optional(Pointwise(DoubleNear(1e-6), weights)));
  EXPECT_EQ(
      sequence_sentence(parts(gradient(weights))),
      "grad_weight counts sequence 0 4.000 times, sequence 1 2.000 times, sequence 2 once, "
      "sequence 3 not at all: microbatches that count more than once, or with other weights?");
}

TEST_F(SequencePartsTest, AddUpOverShards) {
  const std::vector<double> whole = gradient({0, 1, 1, 0});
  const auto half = static_cast<std::ptrdiff_t>(whole.size() / 2);
  auto first = sequence_parts(case_.problem, case_.truth, vocab_shard(kBigramVocab, 2, 0),
                              {whole.begin(), whole.begin() + half});
  const auto second = sequence_parts(case_.problem, case_.truth, vocab_shard(kBigramVocab, 2, 1),
                                     {whole.begin() + half, whole.end()});
  first->add(*second);
  EXPECT_EQ(sequence_sentence(*first),
            "grad_weight counts sequences 0 and 3 not at all, sequences 1 and 2 once: a microbatch "
            "that is left out?");
}

TEST_F(SequencePartsTest, NameMeansOfMicrobatches) {
  // Microbatches of the first two and the last two sequences, of 21 and 10 of 31 valid tokens.
  const std::vector<double> weights{31 / 42.0, 31 / 42.0, 31 / 20.0, 31 / 20.0};
  EXPECT_THAT(sequence_sentence(parts(gradient(weights))),
              Optional(HasSubstr("means over the tokens of each microbatch, not of the batch?")));
}

TEST_F(SequencePartsTest, NameTheMicrobatchOfALoss) {
  const std::vector<double> losses = sequence_losses(case_.problem, case_.truth);
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_NEAR(losses[0] + losses[1] + losses[2] + losses[3], case_.truth.objective.loss.value,
              1e-9);
  // Two parts of two sequences each, as two dp ranks have them.
  const std::vector<SequenceLoss> of_ranks{
      {0, 0, 2, losses[0]}, {3, 1, 2, losses[3]}, {1, 0, 2, losses[1]}, {2, 1, 2, losses[2]}};
  EXPECT_EQ(microbatch_sentence(of_ranks, losses[2] + losses[3]),
            "loss is that of sequences 2 and 3 alone: of one of 2 microbatches?");
  EXPECT_EQ(microbatch_sentence(of_ranks, losses[0] + losses[3]), std::nullopt);
  EXPECT_EQ(microbatch_sentence(of_ranks, case_.truth.objective.loss.value), std::nullopt);
  EXPECT_EQ(microbatch_sentence({}, 1.0), std::nullopt);
}

TEST_F(SequencePartsTest, NameNothingWhereNothingDiffers) {
  EXPECT_EQ(sequence_sentence(parts(gradient({1, 1, 1, 1}))), std::nullopt);
  EXPECT_EQ(sequence_sentence(parts(gradient({2, 2, 2, 2}))), std::nullopt);
  std::vector<double> other = gradient({4, 2, 1, 0});
  for (std::size_t k = 0; k < other.size(); ++k) other[k] += 1e-3 * std::sin(k);
  EXPECT_EQ(sequence_sentence(parts(other)), std::nullopt);
  EXPECT_EQ(sequence_sentence(parts(std::vector<double>(kBigramVocab * kBigramVocab, 0.0))),
            std::nullopt);
}

}  // namespace
}  // namespace lossgrid
