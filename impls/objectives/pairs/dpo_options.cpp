// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/dpo_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

/// Returns the names in the order of DpoLossType.
const std::vector<std::string>& loss_type_names() {
  static const std::vector<std::string> names = {
      "sigmoid",   "robust",   "hinge",    "ipo",      "exo_pair",     "nca_pair", "bco_pair",
      "sppo_hard", "apo_zero", "apo_down", "discopop", "sigmoid_norm", "aot",      "aot_unpaired"};
  return names;
}

/// Returns the names in the order of FDivergence.
const std::vector<std::string>& divergence_names() {
  static const std::vector<std::string> names = {"reverse_kl", "forward_kl", "js_divergence",
                                                 "alpha_divergence"};
  return names;
}

OptionNames text_options(const std::vector<std::string>& texts) {
  OptionNames names;
  for (const std::string& text : texts) names.emplace_back(text.c_str());
  return names;
}

bool is_any_of(DpoLossType type, std::initializer_list<DpoLossType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

void require_smoothing_fits(const DpoOptions& o, const std::string& loss_type) {
  using Type = DpoLossType;
  const double e = o.label_smoothing;
  const bool takes = is_any_of(o.loss_type, {Type::sigmoid, Type::robust, Type::exo_pair,
                                             Type::sigmoid_norm, Type::aot, Type::aot_unpaired});
  if (e > 0 && !takes) {
    throw_bad_input("dpo: loss_type = \"{}\" excludes a label_smoothing above 0", loss_type);
  }
  if (e == 0 && o.loss_type == Type::exo_pair) {
    throw_bad_input("dpo: loss_type = \"exo_pair\" needs a label_smoothing above 0");
  }
}

void require_scores_fit(const DpoOptions& o, const std::string& loss_type) {
  using Type = DpoLossType;
  if (o.beta() == 0 && is_any_of(o.loss_type, {Type::ipo, Type::sppo_hard})) {
    throw_bad_input("dpo: loss_type = \"{}\" needs a reference_policy_kl_penalty above 0",
                    loss_type);
  }
  if (o.preference_average_log_probs && is_any_of(o.loss_type, {Type::ipo, Type::sigmoid_norm})) {
    throw_bad_input("dpo: loss_type = \"{}\" excludes preference_average_log_probs = true",
                    loss_type);
  }
  if (!o.ipo_average_log_probs && o.loss_type != Type::ipo) {
    throw_bad_input("dpo: ipo_average_log_probs = false needs loss_type = \"ipo\"");
  }
  if (o.discopop_tau != DpoOptions().discopop_tau && o.loss_type != Type::discopop) {
    throw_bad_input("dpo: discopop_tau = {} needs loss_type = \"discopop\"", o.discopop_tau);
  }
  if (o.f_alpha_divergence_coef != DpoOptions().f_alpha_divergence_coef &&
      o.f_divergence_type != FDivergence::alpha_divergence) {
    throw_bad_input(
        "dpo: f_alpha_divergence_coef = {} needs f_divergence_type = "
        "\"alpha_divergence\"",
        o.f_alpha_divergence_coef);
  }
  if (o.f_divergence_type == FDivergence::reverse_kl) return;
  const std::string& divergence = divergence_names()[static_cast<int>(o.f_divergence_type)];
  if (!o.compares_scores()) {
    throw_bad_input("dpo: loss_type = \"{}\" excludes f_divergence_type = \"{}\"", loss_type,
                    divergence);
  }
  if (o.preference_average_log_probs) {
    throw_bad_input("dpo: f_divergence_type = \"{}\" excludes preference_average_log_probs = true",
                    divergence);
  }
}

}  // namespace

bool DpoOptions::averages() const {
  return preference_average_log_probs || loss_type == DpoLossType::sigmoid_norm ||
         (loss_type == DpoLossType::ipo && ipo_average_log_probs);
}

bool DpoOptions::compares_scores() const {
  using Type = DpoLossType;
  return is_any_of(loss_type, {Type::sigmoid, Type::sigmoid_norm, Type::hinge, Type::ipo,
                               Type::exo_pair, Type::robust, Type::discopop});
}

double DpoOptions::alpha_exponent() const {
  const double exponent = f_alpha_divergence_coef - 1;
  return std::abs(exponent) < 1e-6 ? 0 : exponent;  // as in TRL, whose limit is the reverse KL
}

DpoOptions DpoOptions::read(const OptionReader& reader) {
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
  reader.read("loss_type", o.loss_type, text_options(loss_type_names()),
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
  reader.read("f_divergence_type", o.f_divergence_type, text_options(divergence_names()),
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
  const std::string& loss_type = loss_type_names()[static_cast<int>(o.loss_type)];
  if (o.ld_alpha && o.loss_type == DpoLossType::aot) {
    throw_bad_input("dpo: loss_type = \"aot\" excludes an ld_alpha");
  }
  if (o.use_weighting && o.sorts()) {
    throw_bad_input("dpo: loss_type = \"{}\" excludes use_weighting = true", loss_type);
  }
  require_smoothing_fits(o, loss_type);
  require_scores_fit(o, loss_type);
  return o;
}

DpoOptions read_dpo_options(const ObjectiveOptions& options) {
  return DpoOptions::read(OptionReader(options, "dpo"));
}

}  // namespace lossgrid
