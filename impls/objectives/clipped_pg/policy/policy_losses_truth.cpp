// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/policy/policy_losses_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/ratio/clipped_pg_truth_ratios.h"

namespace lossgrid {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

/// Returns e^x, a probability.
Enclosure probability(const Enclosure& x) {
  return min(exp(x), 1.0);
}

/// Returns 1 - probability + 1e-8.
Enclosure of_all_others(const Enclosure& probability) {
  return max(1.0 - probability, 0.0) + constant(1e-8);
}

/// Returns p log(p / q) + (1 - p) log((1 - p) / (1 - q)) of the previous and the current one.
Enclosure true_binary_kl(const Enclosure& x, const Enclosure& p) {
  const Enclosure previous = probability(p);
  const Enclosure current = probability(x);
  return previous * (p - x) +
         max(1.0 - previous, 0.0) * log(of_all_others(previous) / of_all_others(current));
}

class PolicyLossTruth : public TruthPart {
 public:
  explicit PolicyLossTruth(TruthState& state) : TruthPart(state), ratios_(state) {}

  /// Returns the policy terms of the tokens of a sequence.
  std::vector<Var> terms(const std::vector<TrueToken>& tokens, const std::vector<Var>& ratios,
                         const std::vector<Var>& clipped, const std::vector<Enclosure>& selected) {
    const SequenceNumbers sequence = sequence_numbers(tokens);
    std::vector<Var> terms;
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      terms.push_back(term(tokens[k], sequence, ratios[k], clipped[k], selected[k]));
      count_clip(tokens[k].advantage, ratios[k].value());
    }
    return terms;
  }

 private:
  /// Weights of the tokens of a sequence in vespo, by the sign of their advantages.
  struct VespoGates {
    Enclosure positive;
    Enclosure negative;
  };

  /// Numbers of a sequence that policy losses of its tokens depend on, without gradient.
  struct SequenceNumbers {
    Enclosure advantage;  // the mean one
    VespoGates gates = {};
  };

  Var term(const TrueToken& token, const SequenceNumbers& sequence, const Var& ratio,
           const Var& clipped, const Enclosure& selected) {
    if (options_.use_cispo) return -token.advantage * detach(clipped) * token.x;
    switch (options_.policy_loss) {
      case PolicyLoss::ppo:
      case PolicyLoss::clip_cov:
        return surrogate(token.advantage, ratio);
      case PolicyLoss::sapo:
        return sapo(token.advantage, ratio);
      case PolicyLoss::geo_mean:
        return Var(-sequence.advantage) * ratio;
      case PolicyLoss::dro: {
        const Var d = token.x - token.p;
        return Var(constant(*options_.dro_beta)) * d * d / 2.0 - token.advantage * token.x;
      }
      case PolicyLoss::dppo_tv:
      case PolicyLoss::dppo_kl:
        return -token.advantage * Var(dppo_weight(token, ratio.enclosure())) * token.x;
      case PolicyLoss::vespo: {
        const VespoGates& gates = sequence.gates;
        const Enclosure& gate = token.advantage >= 0 ? gates.positive : gates.negative;
        return -token.advantage * Var(gate) * token.x;
      }
      case PolicyLoss::kl_cov:
        return surrogate(token.advantage, ratio) +
               Var(selected * constant(options_.ppo_kl_coef)) * abs(token.x - token.p);
      case PolicyLoss::dppo_binary_tv:
      case PolicyLoss::dppo_binary_kl:
        return -token.advantage * Var(dppo_weight(token, 1.0)) * ratio;
    }
    return {};
  }

  /// Returns the numbers of a sequence by its tokens.
  SequenceNumbers sequence_numbers(const std::vector<TrueToken>& tokens) {
    SequenceNumbers numbers;
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
      numbers.gates = vespo_gates(sum(terms));
    }
    return numbers;
  }

  /// Counts the branches of the clip of a token.
  void count_clip(double advantage, double rho) {
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

  VespoGates vespo_gates(const Enclosure& sum) {
    const double low = std::log(1e-8);
    constexpr double kHigh = 20;
    ++truth_.branches[sum.value < low     ? "sequence_ratio_least"
                      : sum.value > kHigh ? "sequence_ratio_largest"
                                          : "sequence_ratio_live"];
    const Enclosure log = limited(sum, low, kHigh);
    const auto gate = [&](double k, double lambda) {
      return exp(constant(lambda) + constant(k) * log - constant(lambda) * exp(log));
    };
    return {gate(options_.vespo_k_pos, options_.vespo_lambda_pos),
            gate(options_.vespo_k_neg, options_.vespo_lambda_neg)};
  }

  /// Returns 1 for a token of dppo that loses its policy term, else 0, both if it may be either;
  /// `x`: its log-probability, `p`: that of the policy it has moved from.
  Enclosure has_diverged(const Enclosure& x, const Enclosure& p, double advantage) const {
    const bool is_above = advantage > 0;
    const double bound = is_above ? options_.ratio_clip_max : options_.ratio_clip_min;
    if (options_.policy_loss == PolicyLoss::dppo_tv ||
        options_.policy_loss == PolicyLoss::dppo_binary_tv) {
      const Enclosure moved = probability(x) - probability(p);
      return is_positive((is_above ? moved : -moved) - constant(bound));
    }
    const Enclosure is_away = is_positive(is_above ? x - p : p - x);
    return min(is_away, is_positive(true_binary_kl(x, p) - constant(bound)));
  }

  /// Returns the weight of a token in dppo: `ratio`, or 0.
  Enclosure dppo_weight(const TrueToken& token, const Enclosure& ratio) {
    const double bound = options_.ratio_clip_c.value_or(kNoBound);
    truth_.branches["dppo_ratio_truncated"] += ratio.value > bound ? 1 : 0;
    const Enclosure diverged =
        has_diverged(token.x.enclosure(), token.anchor.enclosure(), token.advantage);
    truth_.branches["dppo_kept"] += diverged.value > 0 ? 0 : 1;
    truth_.branches[token.advantage > 0 ? "dppo_dropped_above" : "dppo_dropped_below"] +=
        diverged.value > 0 ? 1 : 0;
    const Enclosure weight = limited(ratio, -kNoBound, bound);
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
    const double low = ratios_.lowest_ratio();
    const double high = ratios_.highest_ratio();
    const Enclosure used = from_above ? limited(rho.enclosure(), -kNoBound, high)
                                      : limited(rho.enclosure(), low, kNoBound);
    const Enclosure near = rounded(rho.enclosure(), 4);  // rho, the bound and two products
    const bool is_at_low = near.contains(low);
    const bool is_at_high = near.contains(high);
    const bool is_clipped = from_above ? rho.value() > high : rho.value() < low;
    Enclosure share = is_clipped ? 0.0 : 1.0;
    if (is_at_low || is_at_high) {
      share = share_at_bound(share, from_above ? is_at_high : is_at_low, sides_.clip(!from_above));
    }
    return Tape::record(used, rho, share);
  }

  /// Returns the share of the gradient next to a bound on `side` of it; `clips`: beyond it there is
  /// none.
  Enclosure share_at_bound(Enclosure share, bool clips, Side side) {
    straddles_ = true;
    const double beyond = clips ? 0 : 1;
    if (side == Side::first) return 1.0;
    if (side == Side::second) return beyond;
    if (side == Side::tie) return 0.5;
    share.low = std::min(beyond, 0.5);
    share.high = 1;
    return share;
  }

  TrueRatios ratios_;
};

}  // namespace

Var true_anchor(const ClippedPgOptions& options, const TrueToken& token) {
  return options.is_binary_dppo() ? Var(token.q) : token.p;
}

ByToken<Var> true_policy_terms(TruthState& state, const ByToken<Var>& ratios,
                               const ByToken<Var>& clipped, const ByToken<Enclosure>& selected) {
  PolicyLossTruth losses(state);
  ByToken<Var> terms;
  for (std::size_t i = 0; i < state.tokens.size(); ++i) {
    terms.push_back(losses.terms(state.tokens[i], ratios[i], clipped[i], selected[i]));
  }
  return terms;
}

}  // namespace lossgrid
