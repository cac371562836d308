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
// the reference's log-probabilities over the pairs of the whole batch and compares those of the
// same rank, `aot_unpaired` the scores of chosen and of rejected sequences; such a batch stays in
// one pack.
#pragma once

#include <vector>

#include "harness/loss/objective.h"
#include "impls/objectives/dpo_options.h"
#include "impls/objectives/dpo_pair_loss.h"

namespace lossgrid {

/// The pairing of sequences and the loss of a pair; a variant replaces some of the functions.
struct DpoFormulas {
  static bool is_chosen(std::int64_t i) { return i % 2 == 0; }
  static std::int64_t partner(const PackedBatch& /*batch*/, std::int64_t i) {
    return is_chosen(i) ? i + 1 : i - 1;
  }
  /// Returns the tokens that the score of sequence i is divided by; n: its valid ones.
  static double divisor(const PackedBatch& /*batch*/, std::int64_t /*i*/, double n) {
    return std::max(1.0, n);
  }
  static ValueAndSlope score(const DpoOptions& options, double log_ratio) {
    return dpo_score(options, log_ratio);
  }
  static DpoPairLoss pair_loss(const DpoOptions& options, double a, double b) {
    return dpo_pair_loss(options, a, b);
  }
  /// Returns the indices of `numbers`, which `aot` compares by rank, in ascending order.
  static std::vector<std::size_t> order(const std::vector<double>& numbers, bool of_reference);
};

/// Returns the truth: the forward formula on a tape, independent of the formulas above. `rows`
/// [T_pad] by row.
ObjectiveTruth dpo_truth(const DpoOptions& options, const PackedBatch& batch,
                         std::span<const TokenTruth> rows);

/// The objective without these.
class DpoSteps : public Objective {
 public:
  explicit DpoSteps(const DpoOptions& options) : options_(options) {}

  std::string_view kind() const override { return "dpo"; }
  ObjectiveNeeds needs() const override { return options_.needs(); }
  ObjectiveSizes sizes() const override;
  /// Bad input: an odd number of sequences; a pair with two sample masks.
  void require(const PackedBatch& batch) const override;

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override;
  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override;
  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override;
  std::unique_ptr<ObjectiveKernels> kernels(Backend backend,
                                            const PackedBatch& batch) const override;
  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override;
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return dpo_truth(options_, batch, rows);
  }

 private:
  /// A sequence's sum of log-probabilities and its score, with derivatives by a token's
  /// log-probability.
  struct Sequence {
    std::int64_t index;
    ValueAndSlope logprob;
    ValueAndSlope score;
  };
  struct Pair {
    Sequence chosen;
    Sequence rejected;
    double weight;
  };

  virtual bool is_chosen(std::int64_t i) const = 0;
  virtual std::int64_t partner(const PackedBatch& batch, std::int64_t i) const = 0;
  virtual double divisor(const PackedBatch& batch, std::int64_t i, double n) const = 0;
  virtual ValueAndSlope score(double log_ratio) const = 0;
  virtual DpoPairLoss pair_loss(double a, double b) const = 0;
  virtual std::vector<std::size_t> order(const std::vector<double>& numbers,
                                         bool of_reference) const = 0;

  Sequence sequence(const PackedBatch& batch, SequenceTable<const double> sums,
                    std::int64_t i) const;
  /// Returns the pairs that count.
  std::vector<Pair> pairs(const PackedBatch& batch, SequenceTable<const double> sums) const;
  /// Returns the loss of each pair, with derivatives by its own scores.
  std::vector<DpoPairLoss> losses(const std::vector<Pair>& pairs) const;
  std::vector<DpoPairLoss> losses_by_rank(const std::vector<Pair>& pairs) const;

 protected:
  const DpoOptions options_;
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
  double divisor(const PackedBatch& batch, std::int64_t i, double n) const override {
    return Formulas::divisor(batch, i, n);
  }
  ValueAndSlope score(double log_ratio) const override {
    return Formulas::score(options_, log_ratio);
  }
  DpoPairLoss pair_loss(double a, double b) const override {
    return Formulas::pair_loss(options_, a, b);
  }
  std::vector<std::size_t> order(const std::vector<double>& numbers,
                                 bool of_reference) const override {
    return Formulas::order(numbers, of_reference);
  }
};

}  // namespace lossgrid
