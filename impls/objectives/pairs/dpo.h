// SPDX-License-Identifier: Apache-2.0
// Direct preference optimisation (NeMo-RL `DPOLossFn`) with the losses of a pair that TRL's
// `DPOTrainer` has. Sequences of a pack come in pairs: chosen 2j, rejected 2j + 1. With n_i valid
// tokens in sequence i, ref the reference policy's log-probabilities, s the sample mask, h the
// score of f_divergence_type (h(x) = x for the reverse KL), l the loss_type and G_seq the valid
// sequences of the global batch:
//   R_i = h(sum_t (lp_t - ref_t))  [/ max(1, n_i) if preference_average_log_probs, ipo and
//         sigmoid_norm]
//   preference = sum_j s_2j * l(R_2j, R_2j+1) / (G_seq / 2)
//   sft = sum_j s_2j * (sum_t -lp_t of the chosen  [/ max(1, n) if sft_average_log_probs])
//         / (G_seq / 2), and 0 when its weight is 0
//   L = preference_loss_weight * preference + sft_loss_weight * sft;  0 when G_seq = 0
// l is -log sigmoid(beta (R_2j - R_2j+1)) by default. `aot` (I. Melnyk et al., "Distributional
// Preference Alignment via Optimal Transport", 2024) sorts the differences of the policy's and of
// the reference's log-probabilities over the pairs of the whole batch and compares differences of
// the same rank; `aot_unpaired` does so with the scores of chosen and of rejected sequences. Such a
// batch stays in one pack.
#pragma once

#include <vector>

#include "impls/objectives/pairs/dpo_losses.h"
#include "impls/objectives/pairs/dpo_options.h"
#include "impls/objectives/pairs/pair_steps.h"

namespace lossgrid {

/// Pairing of sequences and loss of a pair; a variant replaces some of the functions.
struct DpoFormulas {
  static bool is_chosen(std::int64_t i) { return i % 2 == 0; }
  static std::int64_t partner(const PackedBatch& /*batch*/, std::int64_t i) {
    return is_chosen(i) ? i + 1 : i - 1;
  }
  /// Returns the divisor of a sequence's score, a number of tokens.
  static double divisor(const PackedBatch& /*batch*/, const PairSequence& sequence) {
    return sequence.tokens_or_one();
  }
  static ValueAndSlope score(const DpoOptions& options, double log_ratio) {
    return dpo_score(options, log_ratio);
  }
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    return dpo_pair_loss(options, a, b);
  }
  /// Returns the loss of a pair under `use_weighting`.
  static PairLoss weighted(const PairLoss& loss, const SequencePair& pair) {
    const double weight = pair.chosen.weight() * pair.rejected.weight();
    return {weight * loss.value, weight * loss.by_chosen, weight * loss.by_rejected};
  }
  /// Returns the indices of `numbers`, which `aot` compares by rank, in ascending order.
  static std::vector<std::size_t> order(const std::vector<double>& numbers, bool of_reference);
};

/// Returns the truth: the forward formula on a tape, independent of the formulas above. `rows`
/// [T_pad] is by row.
ObjectiveTruth dpo_truth(const DpoOptions& options, const PackedBatch& batch,
                         std::span<const TokenTruth> rows);

/// Returns the needs of `dpo`.
ObjectiveNeeds dpo_needs(const DpoOptions& options);

/// Steps of the objective, independent of the formulas.
class DpoSteps : public PairSteps {
 public:
  explicit DpoSteps(const DpoOptions& options)
      : PairSteps(options.weights(), dpo_needs(options)), options_(options) {}

  std::string_view kind() const override { return "dpo"; }
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return dpo_truth(options_, batch, rows);
  }

 protected:
  PolicyEdges edges() const override;
  std::vector<PairLoss> losses(const PackedBatch& batch,
                               const std::vector<SequencePair>& pairs) const override;
  double reward(const PackedBatch& batch, const PairSequence& sequence) const override {
    return scored(batch, sequence).value;
  }

  const DpoOptions options_;

 private:
  virtual double divisor(const PackedBatch& batch, const PairSequence& sequence) const = 0;
  virtual ValueAndSlope score(double log_ratio) const = 0;
  virtual PairLoss pair_loss(double a, double b) const = 0;
  virtual PairLoss weighted(const PairLoss& loss, const SequencePair& pair) const = 0;
  virtual std::vector<std::size_t> order(const std::vector<double>& numbers,
                                         bool of_reference) const = 0;

  /// Returns the divisor of a sequence's score; 1 if scores are not divided.
  double tokens(const PackedBatch& batch, const PairSequence& sequence) const {
    return options_.averages() ? divisor(batch, sequence) : 1;
  }
  /// Returns the score of a sequence with its derivative by a token's log-probability.
  ValueAndSlope scored(const PackedBatch& batch, const PairSequence& sequence) const;
  /// Returns the losses of `aot`, with derivatives by the scores.
  std::vector<PairLoss> losses_by_rank(const PackedBatch& batch,
                                       const std::vector<SequencePair>& pairs) const;
};

template <class Formulas = DpoFormulas>
class DpoObjective final : public DpoSteps {
 public:
  using DpoSteps::DpoSteps;

 private:
  bool is_chosen(std::int64_t i) const override { return Formulas::is_chosen(i); }
  std::int64_t partner(const PackedBatch& batch, std::int64_t i) const override {
    return Formulas::partner(batch, i);
  }
  double divisor(const PackedBatch& batch, const PairSequence& sequence) const override {
    return Formulas::divisor(batch, sequence);
  }
  ValueAndSlope score(double log_ratio) const override {
    return Formulas::score(options_, log_ratio);
  }
  PairLoss pair_loss(double a, double b) const override {
    return Formulas::pair_loss(options_, a, b);
  }
  PairLoss weighted(const PairLoss& loss, const SequencePair& pair) const override {
    return Formulas::weighted(loss, pair);
  }
  std::vector<std::size_t> order(const std::vector<double>& numbers,
                                 bool of_reference) const override {
    return Formulas::order(numbers, of_reference);
  }
};

}  // namespace lossgrid
