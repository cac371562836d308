// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the policy term of a token.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "impls/objectives/clipped_pg/clipped_pg_truth_part.h"
#include "impls/objectives/clipped_pg/policy/policy_losses_truth.h"
#include "impls/objectives/clipped_pg/ratio/clipped_pg_truth_ratios.h"

namespace lossgrid {

class TrueActor : public TruthPart {
 public:
  explicit TrueActor(TruthState& state) : TruthPart(state), ratios_(state) {}

  /// Numbers of a sequence that policy losses of its tokens depend on, without gradient.
  struct OfSequence {
    Enclosure advantage;  // the mean one
    VespoGates gates = {};
  };

  /// Returns the numbers of a sequence by its tokens.
  OfSequence of_sequence(const std::vector<TrueToken>& tokens) {
    OfSequence numbers;
    if (tokens.empty()) return numbers;
    std::vector<Enclosure> terms;
    if (options_.policy_loss == PolicyLoss::geo_mean) {
      for (const TrueToken& token : tokens) terms.push_back(token.advantage);
      numbers.advantage = sum(terms) * reciprocal(static_cast<std::int64_t>(tokens.size()));
    }
    if (options_.policy_loss == PolicyLoss::vespo) {
      for (const TrueToken& token : tokens) {
        terms.push_back(ratios_.bounded_log(token.x - token.p).enclosure());
      }
      numbers.gates = vespo_gates(options_, sum(terms), truth_.branches);
    }
    return numbers;
  }

  /// Returns the policy term of a token, without importance weight.
  Var actor_term(const TrueToken& token, const OfSequence& of_sequence, const Var& ratio,
                 const Var& clipped) {
    if (options_.use_cispo) return -token.advantage * detach(clipped) * token.x;
    switch (options_.policy_loss) {
      case PolicyLoss::sapo:
        return sapo(token.advantage, ratio);
      case PolicyLoss::geo_mean:
        return Var(-of_sequence.advantage) * ratio;
      case PolicyLoss::dro: {
        const Var d = token.x - token.p;
        return Var(constant(*options_.dro_beta)) * d * d / 2.0 - token.advantage * token.x;
      }
      case PolicyLoss::dppo_tv:
      case PolicyLoss::dppo_kl:
        return -token.advantage * Var(dppo_weight(token, ratio.enclosure())) * token.x;
      case PolicyLoss::dppo_binary_tv:
      case PolicyLoss::dppo_binary_kl:
        return -token.advantage * Var(dppo_weight(token, 1.0)) * ratio;
      case PolicyLoss::vespo:
        return -token.advantage * Var(of_sequence.gates.of(token.advantage)) * token.x;
      default:
        return surrogate(token.advantage, ratio);
    }
  }

  // Branches of a token:
  void count_actor_branch(double advantage, double rho) {
    ++truth_.branches["tokens"];
    truth_.branches["advantage_zero"] += advantage == 0 ? 1 : 0;
    if (!options_.clips()) return;
    const bool below = rho < ratios_.lowest_ratio();
    const bool above = rho > ratios_.highest_ratio();
    truth_.branches["ratio_inside_clip"] += !below && !above ? 1 : 0;
    const auto count_side = [&](const std::string& name, bool is_taken, bool is_clipped) {
      truth_.branches[name] += is_taken ? 1 : 0;
      if (options_.use_cispo) return;  // uses the clipped ratio on either side
      truth_.branches[name + "_clipped_active"] += is_taken && is_clipped ? 1 : 0;
    };
    count_side("ratio_below_clip", below, advantage < 0);
    count_side("ratio_above_clip", above, advantage > 0);
    if (!options_.ratio_clip_c) return;
    const bool is_dual =
        advantage < 0 && std::max(rho, ratios_.lowest_ratio()) > *options_.ratio_clip_c;
    truth_.branches["dual_clip_active"] += is_dual ? 1 : 0;
  }

  void count_log_bounds(double rho) {
    const auto& low = options_.log_ratio_min;
    const auto& high = options_.log_ratio_max;
    if (low) truth_.branches["log_ratio_at_least"] += std::log(rho) <= *low + 1e-9 ? 1 : 0;
    if (high) truth_.branches["log_ratio_at_most"] += std::log(rho) >= *high - 1e-9 ? 1 : 0;
  }

 private:
  /// Returns the weight of a token in dppo: `ratio`, or 0.
  Enclosure dppo_weight(const TrueToken& token, const Enclosure& ratio) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double bound = options_.ratio_clip_c.value_or(kInfinity);
    truth_.branches["dppo_ratio_truncated"] += ratio.value > bound ? 1 : 0;
    const Enclosure diverged =
        has_diverged(options_, token.x.enclosure(), token.anchor.enclosure(), token.advantage);
    truth_.branches["dppo_kept"] += diverged.value > 0 ? 0 : 1;
    truth_.branches[token.advantage > 0 ? "dppo_dropped_above" : "dppo_dropped_below"] +=
        diverged.value > 0 ? 1 : 0;
    const Enclosure weight = limited(ratio, -kInfinity, bound);
    if (diverged.is_exact()) return diverged.value > 0 ? 0.0 : weight;
    straddles_ = true;
    if (sides_.actor == Side::either) {
      return diverged.value > 0 ? hull(0.0, weight) : hull(weight, 0.0);
    }
    return sides_.actor == Side::second ? 0.0 : weight;
  }

  /// -A (4 / tau) sigmoid(tau (rho - 1)).
  Var sapo(double advantage, const Var& rho) {
    const bool is_positive = advantage > 0;
    ++truth_.branches[is_positive ? "sapo_positive" : "sapo_negative"];
    const Var tau = constant(is_positive ? options_.tau_pos : options_.tau_neg);
    return -advantage * (4.0 / tau) * exp(log_sigmoid(tau * (rho - 1.0)));
  }

  /// max(-A rho, -A rho_c), and the dual clip.
  Var surrogate(double advantage, const Var& rho) {
    const Var loss = -advantage * clipped_on_one_side(rho, advantage >= 0);
    if (!options_.ratio_clip_c || advantage >= 0) return loss;
    return min(loss, -advantage * Var(constant(*options_.ratio_clip_c)));
  }

  /// Returns rho as it is in max(-A rho, -A rho_c): clipped from above for A > 0, from below for
  /// A < 0. max() of the tape would take rho and rho_c for two numbers that may lie on different
  /// sides of a bound. Inside the clip range the two sides of the maximum are one number, half of
  /// the gradient from each; just outside, at either bound, products of float32 may still tie, and
  /// the clamp passes nothing: half of the gradient.
  Var clipped_on_one_side(const Var& rho, bool from_above) {
    if (!options_.clips()) return rho;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double low = ratios_.lowest_ratio();
    const double high = ratios_.highest_ratio();
    const Enclosure used = from_above ? limited(rho.enclosure(), -kInfinity, high)
                                      : limited(rho.enclosure(), low, kInfinity);
    const Enclosure near = rounded(rho.enclosure(), 4);  // rho, the bound and two products
    const bool is_at_low = near.contains(low);
    const bool is_at_high = near.contains(high);
    const bool is_clipped = from_above ? rho.value() > high : rho.value() < low;
    Enclosure share = is_clipped ? 0.0 : 1.0;
    if (is_at_low || is_at_high) share = share_at_bound(share, from_above ? is_at_high : is_at_low);
    return Tape::record(used, rho, share);
  }

  /// Returns the share of the gradient next to a bound; `clips`: beyond it there is none.
  Enclosure share_at_bound(Enclosure share, bool clips) {
    straddles_ = true;
    const double beyond = clips ? 0 : 1;
    if (sides_.actor == Side::first) return 1.0;
    if (sides_.actor == Side::second) return beyond;
    if (sides_.actor == Side::tie) return 0.5;
    share.low = std::min(beyond, 0.5);
    share.high = 1;
    return share;
  }

  TrueRatios ratios_;
};

}  // namespace lossgrid
