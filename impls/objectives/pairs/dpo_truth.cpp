// SPDX-License-Identifier: Apache-2.0
// Truth of `dpo`: its forward formula, written on a tape after NeMo-RL's `DPOLossFn` and TRL's
// `DPOTrainer` and independent of pair_losses.h. Names: a and b are the scores of the chosen and
// the rejected sequence, u = beta (a - b), e the label smoothing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "impls/objectives/clipped_pg/selection/ranked.h"
#include "impls/objectives/pairs/dpo.h"
#include "impls/objectives/pairs/pair_truth.h"

namespace lossgrid {
namespace {

/// Returns KL((s(u), s(-u)), (1 - e, e)).
Var divergence_from_labels(const Var& u, double e) {
  const auto term = [](const Var& x, double p) {
    return true_logistic(x) * (log_sigmoid(x) - rounded_option(std::log(p)));
  };
  return term(u, 1 - e) + term(-u, e);
}

/// Returns the mixture of the logistic and the exponential loss, with m exp(-u) as one exponential.
Var discopop_mixture(const Var& u, double tau) {
  const Var scaled = u / rounded_option(tau);
  return -(true_logistic(-scaled) * log_sigmoid(u)) + exp(log_sigmoid(scaled) - u);
}

class DpoTruth final : public PairTruth {
 public:
  DpoTruth(const DpoOptions& options, const PackedBatch& batch, std::span<const TokenTruth> rows,
           int side)
      : PairTruth(options.weights(), batch, rows, side), options_(options) {}

 private:
  Var beta() const { return rounded_option(options_.reference_policy_kl_penalty); }

  bool is_by_token() const {
    const bool is_ipo = options_.loss_type == DpoLossType::ipo && options_.ipo_average_log_probs;
    return is_ipo || options_.loss_type == DpoLossType::sigmoid_norm ||
           options_.preference_average_log_probs;
  }

  double divisor(const TrueSequence& sequence) const {
    return is_by_token() ? sequence.tokens_or_one() : 1;
  }

  Var reward(const TrueSequence& sequence) override {
    return score(sequence.log_ratio) / divisor(sequence);
  }

  /// Returns f'(exp(x)) of the f-divergence, up to a constant for the reverse KL.
  Var score(const Var& x) {
    switch (options_.f_divergence_type) {
      case FDivergence::forward_kl:
        return 1.0 - exp(-x);
      case FDivergence::js_divergence:
        return rounded_option(std::log(2.0)) + log_sigmoid(x);
      case FDivergence::alpha_divergence:
        return alpha_score(x);
      default:
        return x;
    }
  }

  Var alpha_score(const Var& x) {
    constexpr double kLargest = 80;
    const double coefficient = options_.f_alpha_divergence_coef - 1;
    if (std::abs(coefficient) < 1e-6) return x;
    const Var exponent = rounded_option(coefficient) * x;
    const Var used = clamp(exponent, -std::numeric_limits<double>::infinity(), kLargest);
    branch("sequence_alpha_clamped") += exponent.value() > kLargest ? 1 : 0;
    return (exp(used) - 1.0) / rounded_option(coefficient);
  }

  std::vector<Var> losses() override {
    if (options_.sorts()) return losses_by_rank();
    std::vector<Var> losses = PairTruth::losses();
    if (!options_.use_weighting) return losses;
    for (std::size_t k = 0; k < losses.size(); ++k) {
      losses[k] = Var(weight(pairs()[k].chosen) * weight(pairs()[k].rejected)) * losses[k];
    }
    return losses;
  }

  /// Returns the geometric mean of p / sum_v p_v^2 over the tokens of a sequence, which WPO takes
  /// as a constant.
  static Enclosure weight(const TrueSequence& sequence) {
    return exp(sequence.alignment / sequence.tokens_or_one());
  }

  Var loss(const TruePair& pair) override {
    using Type = DpoLossType;
    const Var& a = pair.chosen.reward;
    const Var& b = pair.rejected.reward;
    const double e = options_.label_smoothing;
    const Var u = beta() * (a - b);
    const Var x = beta() * a;
    const Var y = beta() * b;
    switch (options_.loss_type) {
      case Type::robust:
        return (rounded_option(e) * log_sigmoid(-u) - rounded_option(1 - e) * log_sigmoid(u)) /
               rounded_option(1 - 2 * e);
      case Type::hinge:
        branch("pairs_hinge_active") += u.value() < 1 ? 1 : 0;
        branch("pairs_hinge_flat") += u.value() >= 1 ? 1 : 0;
        return positive_part(1.0 - u);
      case Type::ipo:
        return true_square(a - b - half_over_beta());
      case Type::exo_pair:
        return divergence_from_labels(u, e);
      case Type::nca_pair:
        return -log_sigmoid(x) - 0.5 * (log_sigmoid(-x) + log_sigmoid(-y));
      case Type::bco_pair:
        return -log_sigmoid(x) - log_sigmoid(-y);
      case Type::sppo_hard:
        return true_square(a - half_over_beta()) + true_square(b + half_over_beta());
      case Type::apo_zero:
        return true_logistic(-x) + true_logistic(y);
      case Type::apo_down:
        return true_logistic(x) + true_logistic(-u);
      case Type::discopop:
        return discopop_mixture(u, options_.discopop_tau);
      default:
        return true_smoothed(u, e);
    }
  }

  /// Returns the difference of scores at which `ipo` has its minimum.
  Var half_over_beta() const { return 1.0 / (2.0 * beta()); }

  /// Returns the losses by rank, for the differences of policy and reference, or for the scores of
  /// chosen and rejected sequences.
  std::vector<Var> losses_by_rank() {
    const bool is_unpaired = options_.loss_type == DpoLossType::aot_unpaired;
    std::vector<Var> firsts;
    std::vector<Var> seconds;
    for (const auto& [chosen, rejected] : pairs()) {
      const double n = divisor(chosen);
      const double m = divisor(rejected);
      firsts.push_back(is_unpaired ? chosen.reward : chosen.logprob / n - rejected.logprob / m);
      seconds.push_back(is_unpaired ? rejected.reward
                                    : Var(chosen.reference / n - rejected.reference / m));
    }
    const Ranked first(firsts);
    const Ranked second(seconds);
    expect_sides(std::max(first.most_ranks(), is_unpaired ? second.most_ranks() : 1));
    std::int64_t& crossed = branch("pairs_ranked_apart");
    std::vector<Var> losses;
    for (std::size_t rank = 0; rank < firsts.size(); ++rank) {
      const std::size_t i = first.item(rank);
      const std::size_t j = second.item(rank);
      crossed += i != j ? 1 : 0;
      const Enclosure by_first = slope_at_ranks(first, i, second, 1);
      const Enclosure by_second = slope_at_ranks(second, j, first, -1);
      const Var value = true_smoothed(
          beta() * (Var(first.statistic(rank)) - second.statistic(rank)), options_.label_smoothing);
      losses.push_back(Tape::record(value.enclosure(), firsts[i], by_first, seconds[j], by_second));
    }
    return losses;
  }

  /// Returns the derivative of the loss by number `item`, over all ranks that the number may have,
  /// or at the rank of the selected side. `sign` is -1 if the number is subtracted.
  Enclosure slope_at_ranks(const Ranked& own, std::size_t item, const Ranked& other, double sign) {
    const auto [first, last] = own.ranks(item);
    const auto slope_at = [&](std::size_t rank) {
      Tape tape;
      const Var x = tape.variable(own.number(item));
      const Var loss =
          true_smoothed(beta() * (sign * (x - other.statistic(rank))), options_.label_smoothing);
      return tape.gradient(loss, std::vector<Var>{x})[0];
    };
    if (side() >= 0) return slope_at(std::min(first + static_cast<std::size_t>(side()), last));
    Enclosure slope = slope_at(own.rank(item));
    for (std::size_t rank = first; rank <= last; ++rank) slope = hull(slope, slope_at(rank));
    return slope;
  }

  const DpoOptions& options_;
};

}  // namespace

ObjectiveTruth dpo_truth(const DpoOptions& options, const PackedBatch& batch,
                         std::span<const TokenTruth> rows) {
  return truth_of_pairs(
      [&](int side) { return std::make_unique<DpoTruth>(options, batch, rows, side); });
}

}  // namespace lossgrid
