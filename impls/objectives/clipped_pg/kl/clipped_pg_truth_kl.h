// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the KL to the reference policy, by token.
#pragma once

#include <optional>

#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_part.h"

namespace lossgrid {

/// Returns KL by r = reference - current.
template <typename Number>
Number kl_estimate(KlType type, const Number& r) {
  switch (type) {
    case KlType::k1:
      return -r;
    case KlType::k2:
      return Number(0.5) * r * r;
    case KlType::abs:
      return abs(r);
    default:
      return exp(r) - Number(1.0) - r;
  }
}

class TrueKl : public TruthPart {
 public:
  explicit TrueKl(TruthState& state) : TruthPart(state) {}

  /// Returns the KL of every token, clamped and with the gradient that the options give it.
  ByToken<Var> kl_terms() {
    return each<Var>([&](const TrueToken& token) {
      const std::optional<double>& input_bound = options_.kl_input_clamp_value;
      const std::optional<double>& output_bound = options_.kl_output_clamp_value;
      Var r = token.f - token.x;
      Var weight = kl_weight(token);
      const bool is_finite = !options_.use_on_policy_kl_approximation ||
                             (token.has_generation() && is_finite_float(weight.value()));
      if (!is_finite) weight = Var();
      Enclosure is_clamped = 0.0;
      if (input_bound) {
        is_clamped = side_of(is_positive(abs(r.enclosure()) - constant(*input_bound)));
        r = limited(r, -*input_bound, *input_bound);
        // The weight keeps its value and loses its gradient.
        weight = Tape::record(weight.enclosure(), weight, 1.0 - is_clamped);
      }
      const Var kl = weight * kl_estimate(options_.reference_policy_kl_type, r);
      const bool is_limited = output_bound && std::abs(kl.value()) > *output_bound;
      count_kl_branch(is_finite, is_clamped.value > 0, is_limited);
      const Var limited_kl = output_bound ? limited(kl, -*output_bound, *output_bound) : kl;
      return with_kl_gradient(token, limited_kl);
    });
  }

 private:
  /// Returns the factor of a token's KL.
  Var kl_weight(const TrueToken& token) const {
    switch (options_.kl_gradient) {
      case KlGradient::score:
        if (!options_.use_on_policy_kl_approximation) return score(token.x);
        return token.has_generation() ? exp(token.x - token.q) : Var();
      case KlGradient::ratio:
        return options_.force_on_policy_ratio ? score(token.x) : exp(token.x - token.p);
      default:
        return 1.0;
    }
  }

  /// Returns the KL with the gradient that stands in the place of its own.
  Var with_kl_gradient(const TrueToken& token, const Var& kl) {
    const Enclosure& x = token.x.enclosure();
    const Enclosure distance = x - token.f;
    if (options_.kl_gradient == KlGradient::straight_through) {
      return Tape::record(kl.enclosure(), token.x, distance);
    }
    if (options_.kl_gradient != KlGradient::importance) return kl;
    const Enclosure ratio = exp(x - token.p.enclosure());
    truth_.branches["kl_importance_truncated"] += ratio.value > 10 ? 1 : 0;
    return Tape::record(kl.enclosure(), token.x, min(ratio, 10.0) * distance);
  }

  /// Returns `is_clamped`, 0 or 1 if a side is to be taken.
  Enclosure side_of(const Enclosure& is_clamped) {
    if (is_clamped.is_exact()) return is_clamped;
    straddles_ = true;
    if (sides_.kl == Side::either) return is_clamped;
    return sides_.kl == Side::second ? 1.0 : 0.0;
  }

  void count_kl_branch(bool is_finite, bool input_clamped, bool output_clamped) {
    const auto count = [&](const char* name, bool is_taken) {
      truth_.branches[name] += is_taken ? 1 : 0;
    };
    if (options_.use_on_policy_kl_approximation) count("kl_weight_not_finite", !is_finite);
    count("kl_live", is_finite && !input_clamped && !output_clamped);
    if (options_.kl_input_clamp_value) count("kl_input_clamped", is_finite && input_clamped);
    if (options_.kl_output_clamp_value) {
      count("kl_output_clamped", is_finite && !input_clamped && output_clamped);
    }
  }
};

}  // namespace lossgrid
