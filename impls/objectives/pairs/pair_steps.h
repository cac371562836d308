// SPDX-License-Identifier: Apache-2.0
// PairSteps: the steps of objectives of preference pairs. Sequences of a pack come in pairs: chosen
// 2j, rejected 2j + 1. An objective states the loss of each pair as a function of sums over the
// tokens of both sequences, with its derivatives; with s the sample mask and G_seq the valid
// sequences of the global batch:
//   preference = sum_j s_2j * loss_j / (G_seq / 2)
//   sft = sum_j s_2j * (sum_t -lp_t of the chosen  [/ max(1, n) if sft_by_token]) / (G_seq / 2),
//         and 0 when its weight is 0
//   L = preference weight * preference + sft weight * sft;  0 when G_seq = 0
// Its truth is a PairTruth (pair_truth.h).
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "harness/loss/terms_objective.h"
#include "impls/objectives/pairs/pair_terms.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

/// Terms of the loss of pairs.
struct PairWeights {
  double preference = 1;
  double sft = 0;
  bool sft_by_token = false;
  bool has_reference = true;  // rewards use log-ratios to the reference policy
  double tail = 1;            // weight in log-ratios of tokens beyond the shorter sequence's length
  bool weighs_pairs = false;  // by PairSequence::weight of both sequences
};

/// Sums over the valid tokens of a sequence.
struct PairSequence {
  std::int64_t index = 0;
  double tokens = 0;
  double logprob = 0;
  double log_ratio = 0;  // weighted sum of lp - ref, or of lp without a reference
  double alignment = 0;  // sum of lp - log sum_v p_v^2, if the weights of pairs are needed

  double tokens_or_one() const { return tokens > 1 ? tokens : 1; }
  /// Returns the weight of the sequence in WPO's loss (Zhou et al. 2024, equation 2), without
  /// gradient.
  double weight() const { return std::exp(alignment / tokens_or_one()); }
};

struct SequencePair {
  PairSequence chosen;
  PairSequence rejected;
  double weight = 0;  // 1 / pairs of the global batch
};

/// Loss of two numbers with its derivatives. For a pair, the derivatives are by the weighted
/// log-probability of any token of the chosen and of the rejected sequence.
struct PairLoss {
  double value = 0;
  double by_chosen = 0;
  double by_rejected = 0;
};

/// Throws bad_input for an odd number of sequences, or a pair with two sample masks.
void require_pairs(std::string_view kind, const PackedBatch& batch);

/// Returns the needs of all objectives of pairs.
ObjectiveNeeds pair_needs(const PairWeights& weights);

class PairSteps : public TermsObjective<PairTerms> {
 public:
  explicit PairSteps(const PairWeights& weights) : PairSteps(weights, pair_needs(weights)) {}
  PairSteps(const PairWeights& weights, const ObjectiveNeeds& needs)
      : TermsObjective(needs), weights_(weights) {}

  ObjectiveSizes sizes() const override;
  std::shared_ptr<const InputDraw> input_draw() const override;
  /// Throws bad_input for an odd number of sequences, or a pair with two sample masks.
  void require(const PackedBatch& batch) const override;

  std::vector<float> token_weights(const PackedBatch& batch,
                                   const ShiftedBatch& rows) const override;
  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override;
  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override;

 protected:
  /// Returns the distances at which the loss of a pair switches.
  virtual PolicyEdges edges() const;
  /// Returns the loss of each pair.
  virtual std::vector<PairLoss> losses(const PackedBatch& batch,
                                       const std::vector<SequencePair>& pairs) const = 0;
  /// Adds metrics other than the loss and its two terms.
  virtual void add_metrics(const PackedBatch& batch, const std::vector<SequencePair>& pairs,
                           Metrics& metrics) const;
  /// Returns the reward of the chosen sequence of a pair minus the reward of the rejected sequence.
  virtual double reward_difference(const PackedBatch& batch, const SequencePair& pair) const {
    return reward(batch, pair.chosen) - reward(batch, pair.rejected);
  }
  /// Returns the reward of a sequence, for metrics.
  virtual double reward(const PackedBatch& batch, const PairSequence& sequence) const = 0;

  virtual bool is_chosen(std::int64_t i) const { return i % 2 == 0; }
  virtual std::int64_t partner(const PackedBatch& /*batch*/, std::int64_t i) const {
    return is_chosen(i) ? i + 1 : i - 1;
  }

 private:
  PairTerms terms(const PackedBatch& /*batch*/) const override {
    return {weights_.has_reference, weights_.tail != 1, weights_.weighs_pairs};
  }
  /// Returns the pairs that count.
  std::vector<SequencePair> pairs(const PackedBatch& batch, SequenceTable<const double> sums) const;
  /// Returns the divisor of a sequence's SFT loss, a number of tokens.
  double sft_tokens(const PairSequence& sequence) const {
    return weights_.sft_by_token ? sequence.tokens_or_one() : 1;
  }

  const PairWeights weights_;
};

}  // namespace lossgrid
