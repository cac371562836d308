// SPDX-License-Identifier: Apache-2.0
// Kahneman-Tversky optimisation (K. Ethayarajh et al., "KTO", 2024; TRL `KTOTrainer`). Sequences
// come in pairs: 2j is an example, 2j + 1 its completion after another prompt, which estimates the
// distance of the policy from the reference and gets no gradient. With x the sum of lp - ref over
// the tokens of a sequence, J the pairs with sample mask, s the logistic function and G_seq the
// valid sequences of the global batch:
//   z0 = max(0, sum_j x_2j+1 / J), which is a constant
//   l_j = desirable_weight s(-beta (x_2j - z0)) if the reward of 2j is above 0, else
//         undesirable_weight s(beta (x_2j - z0));  for `apo_zero_unpaired` z0 = 0
//   L = sum_j l_j / (G_seq / 2);  0 when G_seq = 0
// The mean is over the whole batch, which stays in one pack.
#pragma once

#include <vector>

#include "impls/objectives/objective_options.h"
#include "impls/objectives/pairs/pair_losses.h"
#include "impls/objectives/pairs/pair_steps.h"

namespace lossgrid {

struct KtoOptions {
  double beta = 0.1;
  bool estimates_kl = true;  // loss_type "kto"; false: "apo_zero_unpaired"
  double desirable_weight = 1;
  double undesirable_weight = 1;

  /// Throws bad_input for a value of another type or out of range.
  static KtoOptions read(const OptionReader& reader);
};

/// Formulas of pairs; a variant replaces some of the functions.
struct KtoFormulas {
  static bool is_desirable(const PackedBatch& batch, const PairSequence& example) {
    return batch.rewards[static_cast<std::size_t>(example.index)] > 0;
  }
  /// Returns z0 from the mean over the mismatched sequences.
  static double reference_point(double mean) { return mean > 0 ? mean : 0; }
  /// Returns d z0 / d x of a mismatched sequence.
  static double reference_slope(double /*mean*/, std::size_t /*pairs*/) { return 0; }
};

/// Returns the needs of `kto`.
ObjectiveNeeds kto_needs(const KtoOptions& options);

/// Steps of the objective, independent of the formulas.
class KtoSteps : public PairSteps {
 public:
  explicit KtoSteps(const KtoOptions& options)
      : PairSteps(PairWeights(), kto_needs(options)), options_(options) {}

  std::string_view kind() const override { return "kto"; }
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override;

 protected:
  std::vector<PairLoss> losses(const PackedBatch& batch,
                               const std::vector<SequencePair>& pairs) const override;
  void add_metrics(const PackedBatch& batch, const std::vector<SequencePair>& pairs,
                   Metrics& metrics) const override;
  double reward(const PackedBatch& /*batch*/, const PairSequence& sequence) const override {
    return sequence.log_ratio;
  }

 private:
  virtual bool is_desirable(const PackedBatch& batch, const PairSequence& example) const = 0;
  virtual double reference_point(double mean) const = 0;
  virtual double reference_slope(double mean, std::size_t pairs) const = 0;

  const KtoOptions options_;
};

template <class Formulas = KtoFormulas>
class KtoObjective final : public KtoSteps {
 public:
  using KtoSteps::KtoSteps;

 private:
  bool is_desirable(const PackedBatch& batch, const PairSequence& example) const override {
    return Formulas::is_desirable(batch, example);
  }
  double reference_point(double mean) const override { return Formulas::reference_point(mean); }
  double reference_slope(double mean, std::size_t pairs) const override {
    return Formulas::reference_slope(mean, pairs);
  }
};

}  // namespace lossgrid
