// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/dpo_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

/// In the order of DpoLossType.
const std::vector<std::string>& loss_type_names() {
  static const std::vector<std::string> names = {
      "sigmoid",   "robust",   "hinge",    "ipo",      "exo_pair",     "nca_pair", "bco_pair",
      "sppo_hard", "apo_zero", "apo_down", "discopop", "sigmoid_norm", "aot",      "aot_unpaired"};
  return names;
}

/// In the order of FDivergence.
const std::vector<std::string>& divergence_names() {
  static const std::vector<std::string> names = {"reverse_kl", "forward_kl", "js_divergence",
                                                 "alpha_divergence"};
  return names;
}

double non_negative_weight(const OptionReader& reader, const std::string& option, double fallback) {
  const double value = reader.number(option, fallback);
  if (value < 0) throw_bad_input("dpo: {} = {} is negative", option, value);
  return value;
}

bool is_loss_type_of(DpoLossType type, std::initializer_list<DpoLossType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

void require_smoothing_fits(const DpoOptions& o, const std::string& loss_type) {
  using Type = DpoLossType;
  const double e = o.label_smoothing;
  if (e < 0 || e >= 0.5) throw_bad_input("dpo: label_smoothing = {} is not in [0, 0.5)", e);
  const bool takes =
      is_loss_type_of(o.loss_type, {Type::sigmoid, Type::robust, Type::exo_pair, Type::sigmoid_norm,
                                    Type::aot, Type::aot_unpaired});
  if (e > 0 && !takes) {
    throw_bad_input("dpo: loss_type = \"{}\" excludes a label_smoothing above 0", loss_type);
  }
  if (e == 0 && o.loss_type == Type::exo_pair) {
    throw_bad_input("dpo: loss_type = \"exo_pair\" needs a label_smoothing above 0");
  }
}

void require_scores_fit(const DpoOptions& o, const std::string& loss_type) {
  using Type = DpoLossType;
  if (o.beta() == 0 && is_loss_type_of(o.loss_type, {Type::ipo, Type::sppo_hard})) {
    throw_bad_input("dpo: loss_type = \"{}\" needs a reference_policy_kl_penalty above 0",
                    loss_type);
  }
  if (o.preference_average_log_probs &&
      is_loss_type_of(o.loss_type, {Type::ipo, Type::sigmoid_norm})) {
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
  return is_loss_type_of(loss_type, {Type::sigmoid, Type::sigmoid_norm, Type::hinge, Type::ipo,
                                     Type::exo_pair, Type::robust, Type::discopop});
}

double DpoOptions::alpha_exponent() const {
  const double exponent = f_alpha_divergence_coef - 1;
  return std::abs(exponent) < 1e-6 ? 0 : exponent;  // as TRL, whose limit is the reverse KL
}

DpoOptions DpoOptions::read(const OptionReader& reader) {
  DpoOptions o;
  o.reference_policy_kl_penalty =
      non_negative_weight(reader, "reference_policy_kl_penalty", o.reference_policy_kl_penalty);
  o.preference_loss_weight =
      non_negative_weight(reader, "preference_loss_weight", o.preference_loss_weight);
  o.sft_loss_weight = non_negative_weight(reader, "sft_loss_weight", o.sft_loss_weight);
  o.preference_average_log_probs =
      reader.flag("preference_average_log_probs", o.preference_average_log_probs);
  o.sft_average_log_probs = reader.flag("sft_average_log_probs", o.sft_average_log_probs);
  o.loss_type = reader.enumerator("loss_type", loss_type_names(), o.loss_type);
  o.label_smoothing = reader.number("label_smoothing", o.label_smoothing);
  o.discopop_tau = reader.number("discopop_tau", o.discopop_tau);
  o.ipo_average_log_probs = reader.flag("ipo_average_log_probs", o.ipo_average_log_probs);
  o.ld_alpha = reader.optional_number("ld_alpha", o.ld_alpha);
  o.f_divergence_type =
      reader.enumerator("f_divergence_type", divergence_names(), o.f_divergence_type);
  o.f_alpha_divergence_coef = reader.number("f_alpha_divergence_coef", o.f_alpha_divergence_coef);
  o.use_weighting = reader.flag("use_weighting", o.use_weighting);
  if (o.discopop_tau <= 0) throw_bad_input("dpo: discopop_tau = {} is not above 0", o.discopop_tau);
  const std::string& loss_type = loss_type_names()[static_cast<int>(o.loss_type)];
  if (o.ld_alpha && (*o.ld_alpha < 0 || *o.ld_alpha > 1)) {
    throw_bad_input("dpo: ld_alpha = {} is not in [0, 1]", *o.ld_alpha);
  }
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
  const OptionReader reader(options, "dpo");
  const DpoOptions read = DpoOptions::read(reader);
  reader.require_all_known();
  return read;
}

}  // namespace lossgrid
