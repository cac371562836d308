// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/dpo_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

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
  const char* divergence = dpo_divergences()[static_cast<std::size_t>(o.f_divergence_type)].name;
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

void require_dpo_fits(const DpoOptions& o) {
  const std::string loss_type = dpo_loss_types()[static_cast<std::size_t>(o.loss_type)].name;
  if (o.ld_alpha && o.loss_type == DpoLossType::aot) {
    throw_bad_input("dpo: loss_type = \"aot\" excludes an ld_alpha");
  }
  if (o.use_weighting && o.sorts()) {
    throw_bad_input("dpo: loss_type = \"{}\" excludes use_weighting = true", loss_type);
  }
  require_smoothing_fits(o, loss_type);
  require_scores_fit(o, loss_type);
}

DpoOptions read_dpo_options(const ObjectiveOptions& options) {
  return DpoOptions::read(OptionReader(options, "dpo"));
}

}  // namespace lossgrid
