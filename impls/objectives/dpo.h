// SPDX-License-Identifier: Apache-2.0
// Direct preference optimisation (NeMo-RL `DPOLossFn`). Sequences of a pack come in pairs: chosen
// 2j, rejected 2j + 1. With n_i valid tokens in sequence i, ref the reference policy's
// log-probabilities, s the sample mask and G_seq the valid sequences of the global batch:
//   R_i = sum_t (lp_t - ref_t)  [/ max(1, n_i) if preference_average_log_probs]
//   D_j = R_2j - R_2j+1
//   preference = sum_j s_2j * -log sigmoid(beta D_j) / (G_seq / 2)
//   sft = sum_j s_2j * (sum_t -lp_t of the chosen  [/ max(1, n) if sft_average_log_probs])
//         / (G_seq / 2), and 0 when its weight is 0
//   L = preference_loss_weight * preference + sft_loss_weight * sft;  0 when G_seq = 0
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/loss/objective.h"

namespace lossgrid {

class OptionReader;

struct DpoOptions {
  double reference_policy_kl_penalty = 0.05;  // beta
  double preference_loss_weight = 1;
  double sft_loss_weight = 0;
  bool preference_average_log_probs = false;
  bool sft_average_log_probs = false;

  /// Throws bad_input for a value of another type or a negative number.
  static DpoOptions read(const OptionReader& reader);
};

/// Throws bad_input for an unknown option, a value of another type or a negative number.
DpoOptions read_dpo_options(const ObjectiveOptions& options);

/// The pairing of sequences and the loss of a pair; a variant replaces one of the functions.
struct DpoFormulas {
  /// Returns -log sigmoid(x), without overflow.
  static double negative_log_sigmoid(double x) {
    return std::max(-x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  }
  static bool is_chosen(std::int64_t i) { return i % 2 == 0; }
  static std::int64_t partner(const PackedBatch& /*batch*/, std::int64_t i) {
    return is_chosen(i) ? i + 1 : i - 1;
  }
};

/// The objective without these.
class DpoSteps : public Objective {
 public:
  explicit DpoSteps(const DpoOptions& options) : options_(options) {}

  std::string_view kind() const override { return "dpo"; }
  ObjectiveNeeds needs() const override;
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
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override;

 private:
  virtual bool is_chosen(std::int64_t i) const = 0;
  virtual std::int64_t partner(const PackedBatch& batch, std::int64_t i) const = 0;
  virtual double negative_log_sigmoid(double x) const = 0;

  double reward(SequenceTable<const double> sums, std::int64_t i) const;

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
  double negative_log_sigmoid(double x) const override { return Formulas::negative_log_sigmoid(x); }
};

}  // namespace lossgrid
