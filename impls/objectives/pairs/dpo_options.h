// SPDX-License-Identifier: Apache-2.0
// DpoOptions: the options of `dpo`. Names and defaults of the terms' weights are those of NeMo-RL's
// `DPOLossConfig`; the loss of a pair has the names of TRL's `DPOConfig`.
#pragma once

#include <optional>

#include "impls/objectives/pairs/pair_steps.h"

namespace lossgrid {

class OptionReader;

/// Loss of a pair; formulas are in pair_losses.h.
enum class DpoLossType {
  sigmoid,
  robust,
  hinge,
  ipo,
  exo_pair,
  nca_pair,
  bco_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  discopop,
  sigmoid_norm,
  aot,
  aot_unpaired,
};

/// f-divergence whose derivative makes the score of a sequence from its log-ratio.
enum class FDivergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };

struct DpoOptions {
  double reference_policy_kl_penalty = 0.05;  // beta
  double preference_loss_weight = 1;
  double sft_loss_weight = 0;
  bool preference_average_log_probs = false;
  bool sft_average_log_probs = false;
  DpoLossType loss_type = DpoLossType::sigmoid;
  double label_smoothing = 0;
  double discopop_tau = 0.05;
  bool ipo_average_log_probs = true;  // false: sums over tokens, as in OpenRLHF
  std::optional<double> ld_alpha;     // weight of the tail of the longer sequence; nullopt: 1
  FDivergence f_divergence_type = FDivergence::reverse_kl;
  double f_alpha_divergence_coef = 0.5;
  bool use_weighting = false;  // weighs losses by the policy's probability of both sequences

  /// Throws bad_input for a value of another type or out of range, or a combination that is not
  /// allowed.
  static DpoOptions read(const OptionReader& reader);

  double beta() const { return reference_policy_kl_penalty; }
  /// True if scores are divided by the tokens of their sequences.
  bool averages() const;
  /// True if the losses of pairs depend on the order of all pairs.
  bool sorts() const {
    return loss_type == DpoLossType::aot || loss_type == DpoLossType::aot_unpaired;
  }
  /// True if the loss is a function of the difference of two scores.
  bool compares_scores() const;
  /// Returns the exponent's coefficient alpha - 1; 0 if the divergence is the reverse KL.
  double alpha_exponent() const;

  PairWeights weights() const {
    return {preference_loss_weight, sft_loss_weight, sft_average_log_probs, true,
            ld_alpha.value_or(1),   use_weighting};
  }
};

/// Reads the options. Throws bad_input, also for an unknown option.
DpoOptions read_dpo_options(const ObjectiveOptions& options);

}  // namespace lossgrid
