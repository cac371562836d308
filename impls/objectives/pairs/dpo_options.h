// SPDX-License-Identifier: Apache-2.0
// DpoOptions: the options of `dpo`. Names and defaults of the terms' weights are those of NeMo-RL's
// `DPOLossConfig`; the loss of a pair has the names of TRL's `DPOConfig`.
#pragma once

#include <optional>

#include "impls/objectives/objective_options.h"
#include "impls/objectives/pairs/pair_steps.h"

namespace lossgrid {

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

/// Throws bad_input for a combination that is not allowed.
void require_dpo_fits(const DpoOptions& options);

/// Returns the names in the order of DpoLossType.
inline const OptionNames& dpo_loss_types() {
  static const OptionNames names{"sigmoid",  "robust",       "hinge",     "ipo",         "exo_pair",
                                 "nca_pair", "bco_pair",     "sppo_hard", "apo_zero",    "apo_down",
                                 "discopop", "sigmoid_norm", "aot",       "aot_unpaired"};
  return names;
}

/// Returns the names in the order of FDivergence.
inline const OptionNames& dpo_divergences() {
  static const OptionNames names{"reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"};
  return names;
}

inline DpoOptions DpoOptions::read(const OptionReader& reader) {
  DpoOptions o;
  reader.read("reference_policy_kl_penalty", o.reference_policy_kl_penalty,
              {"beta", "NeMo-RL, TRL `beta`", kNotNegative, {"0.1", "0.0"}});
  reader.read("preference_loss_weight", o.preference_loss_weight,
              {"weight of the preference term", "NeMo-RL", kNotNegative, {"0.5"}});
  reader.read("sft_loss_weight", o.sft_loss_weight,
              {"weight of the chosen sequences' negative log-likelihood",
               "NeMo-RL",
               kNotNegative,
               {"0.1", "0.0"}});
  reader.read("preference_average_log_probs", o.preference_average_log_probs,
              {"rewards are means over tokens instead of sums", "NeMo-RL"});
  reader.read("sft_average_log_probs", o.sft_average_log_probs,
              {"negative log-likelihoods are means over tokens instead of sums", "NeMo-RL"});
  reader.read("loss_type", o.loss_type, dpo_loss_types(),
              {"the [loss of a pair](#losses-of-a-pair)", "TRL `loss_type`"});
  reader.read("label_smoothing", o.label_smoothing,
              {"e: the share of pairs that are labelled wrong, for `sigmoid` (then cDPO), "
               "`sigmoid_norm`, `robust`, `exo_pair`, `aot` and `aot_unpaired`",
               "TRL, OpenRLHF",
               kBelowHalf,
               {"0.2"}});
  reader.read("discopop_tau", o.discopop_tau, {"tau of `discopop`", "TRL", kAbove0, {"0.5"}});
  reader.read("ipo_average_log_probs", o.ipo_average_log_probs,
              {"false: `ipo` of sums over tokens", "false: OpenRLHF; true: TRL, AReaL"});
  reader.read("ld_alpha", o.ld_alpha,
              {"weight in log-ratios of the tokens of a sequence beyond as many as the other "
               "sequence of its pair has (length desensitising); not with `aot`",
               "TRL",
               kShare,
               {"0.25"}});
  reader.read("f_divergence_type", o.f_divergence_type, dpo_divergences(),
              {"the score of a sequence's log-ratio x: `reverse_kl` x, `forward_kl` 1 - exp(-x), "
               "`js_divergence` ln 2 + ln s(x), `alpha_divergence` (exp((c - 1) x) - 1) / (c - 1), "
               "its exponent at most 80",
               "TRL"});
  reader.read("f_alpha_divergence_coef", o.f_alpha_divergence_coef,
              {"c of `alpha_divergence`; 1: the reverse KL", "TRL", {}, {"2.0"}});
  reader.read("use_weighting", o.use_weighting,
              {"multiplies losses of pairs by the weights of both sequences (WPO). A weight is exp "
               "of the mean over tokens of log p - ln(sum p_v^2), without gradient; not with `aot` "
               "and `aot_unpaired`",
               "TRL"});
  reader.require_all_known();
  require_dpo_fits(o);
  return o;
}

/// Reads the options. Throws bad_input, also for an unknown option.
DpoOptions read_dpo_options(const ObjectiveOptions& options);

}  // namespace lossgrid
