// SPDX-License-Identifier: Apache-2.0
// The truth of `dpo`: its forward formula, written on a tape after NeMo-RL's `DPOLossFn` and TRL's
// `DPOTrainer` and independent of dpo_pair_loss.h. Names: a and b are the scores of the chosen and
// the rejected sequence, u = beta (a - b), e the label smoothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "harness/loss/tape.h"
#include "impls/objectives/dpo.h"
#include "impls/objectives/gradient_sides.h"
#include "impls/objectives/ranked.h"

namespace lossgrid {
namespace {

/// An option that a float32 computation may have to round.
Var option(double value) {
  return static_cast<double>(static_cast<float>(value)) == value ? Var(value)
                                                                 : Var(rounded(value, 1));
}

Var logistic(const Var& x) {
  return exp(log_sigmoid(x));
}

Var square(const Var& x) {
  return x * x;
}

/// Returns max(0, x), which has no gradient at 0, and counts no switch of the tape's own.
Var positive_part(const Var& x) {
  if (x.enclosure().low > 0) return x;
  if (x.enclosure().high <= 0) return 0.0;
  const double share = x.value() > 0 ? 1 : 0;
  return Tape::record(max(x.enclosure(), 0.0), x, Tape::straddled(x, x, share, 0));
}

/// Returns -(1 - e) log s(u) - e log s(-u).
Var smoothed(const Var& u, double e) {
  return -(option(1 - e) * log_sigmoid(u)) - option(e) * log_sigmoid(-u);
}

/// Returns KL((s(u), s(-u)), (1 - e, e)).
Var divergence_from_labels(const Var& u, double e) {
  const auto term = [](const Var& x, double p) {
    return logistic(x) * (log_sigmoid(x) - option(std::log(p)));
  };
  return term(u, 1 - e) + term(-u, e);
}

/// Returns the mixture of the logistic and the exponential loss, m exp(-u) as one exponential.
Var mixture(const Var& u, double tau) {
  const Var scaled = u / option(tau);
  return -(logistic(-scaled) * log_sigmoid(u)) + exp(log_sigmoid(scaled) - u);
}

class DpoTruth {
 public:
  /// `side`: number of the side of a switch that is taken where a number may be on either; -1: all.
  DpoTruth(const DpoOptions& options, const PackedBatch& batch, std::span<const TokenTruth> rows,
           int side)
      : options_(options), batch_(batch), rows_(rows), side_(side) {
    if (side >= 0) tape_.take_side(side == 0 ? Side::first : Side::second);
  }

  ObjectiveTruth take() {
    read_pairs();
    const Var preference = of_pairs(options_.sorts() ? losses_by_rank() : losses());
    const Var sft = options_.sft_loss_weight > 0 ? of_pairs(sft_terms()) : Var(0.0);
    const Var loss = option(options_.sft_loss_weight) * sft +
                     option(options_.preference_loss_weight) * preference;
    truth_.loss = loss.enclosure();
    truth_.grad_logprob.assign(rows_.size(), 0.0);
    const std::vector<Enclosure> gradient = tape_.gradient(loss, logprobs_);
    for (std::size_t k = 0; k < gradient.size(); ++k) truth_.grad_logprob[row_of_[k]] = gradient[k];
    add_metrics(preference, sft);
    return std::move(truth_);
  }

  /// Returns the number of sides of the switches that are not decided; 1 if all are.
  int sides() const { return std::max(sides_, tape_.straddles() ? 2 : 1); }

 private:
  struct Sequence {
    Var logprob;
    Enclosure reference;
    Var score;
    Var nll;
  };
  struct Pair {
    Sequence chosen;
    Sequence rejected;
  };

  Var beta() const { return option(options_.reference_policy_kl_penalty); }

  void read_pairs() {
    std::int64_t& prefers_chosen = truth_.branches["pairs_chosen_preferred"];
    std::int64_t& prefers_rejected = truth_.branches["pairs_rejected_preferred"];
    for (std::int64_t i = 0; i + 1 < batch_.sequences(); i += 2) {
      if (batch_.sample_mask[i] == 0) continue;
      const Sequence chosen = read(i);
      const Sequence rejected = read(i + 1);
      pairs_.push_back({chosen, rejected});
      prefers_chosen += chosen.score.value() > rejected.score.value() ? 1 : 0;
      prefers_rejected += chosen.score.value() < rejected.score.value() ? 1 : 0;
    }
  }

  Sequence read(std::int64_t i) {
    const std::vector<float>& reference =
        batch_.inputs[static_cast<int>(TokenInput::reference_policy_logprobs)];
    std::vector<Var> of_policy;
    std::vector<Enclosure> of_reference;
    std::vector<Var> log_ratios;
    for (std::int64_t t = 1; t < batch_.length(i); ++t) {  // the first token is never a target
      const std::int64_t token = batch_.cu_seqlens[i] + t;
      if (batch_.token_mask[token] == 0) continue;
      row_of_.push_back(batch_.cu_seqlens_padded[i] + t - 1);
      logprobs_.push_back(tape_.variable(rows_[row_of_.back()].logprob));
      of_policy.push_back(logprobs_.back());
      of_reference.push_back(static_cast<double>(reference[token]));
      log_ratios.push_back(logprobs_.back() - Var(of_reference.back()));
    }
    const double tokens = std::max(1.0, static_cast<double>(of_policy.size()));
    const double n = is_by_token() ? tokens : 1;
    Sequence sequence;
    sequence.logprob = sum(of_policy) / n;
    sequence.reference = sum(of_reference) / n;
    sequence.score = score(sum(log_ratios)) / n;
    sequence.nll = -sum(of_policy) / (options_.sft_average_log_probs ? tokens : 1);
    return sequence;
  }

  bool is_by_token() const {
    const bool is_ipo = options_.loss_type == DpoLossType::ipo && options_.ipo_average_log_probs;
    return is_ipo || options_.loss_type == DpoLossType::sigmoid_norm ||
           options_.preference_average_log_probs;
  }

  /// Returns f'(exp(x)) of the f-divergence, up to a constant for the reverse KL.
  Var score(const Var& x) {
    switch (options_.f_divergence_type) {
      case FDivergence::forward_kl:
        return 1.0 - exp(-x);
      case FDivergence::js_divergence:
        return option(std::log(2.0)) + log_sigmoid(x);
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
    const Var exponent = option(coefficient) * x;
    const Var used = clamp(exponent, -std::numeric_limits<double>::infinity(), kLargest);
    truth_.branches["sequence_alpha_clamped"] += exponent.value() > kLargest ? 1 : 0;
    return (exp(used) - 1.0) / option(coefficient);
  }

  std::vector<Var> losses() {
    std::vector<Var> losses;
    for (const Pair& pair : pairs_) losses.push_back(loss(pair.chosen.score, pair.rejected.score));
    return losses;
  }

  Var loss(const Var& a, const Var& b) {
    using Type = DpoLossType;
    const double e = options_.label_smoothing;
    const Var u = beta() * (a - b);
    const Var x = beta() * a;
    const Var y = beta() * b;
    switch (options_.loss_type) {
      case Type::robust:
        return (option(e) * log_sigmoid(-u) - option(1 - e) * log_sigmoid(u)) / option(1 - 2 * e);
      case Type::hinge:
        truth_.branches["pairs_hinge_active"] += u.value() < 1 ? 1 : 0;
        truth_.branches["pairs_hinge_flat"] += u.value() >= 1 ? 1 : 0;
        return positive_part(1.0 - u);
      case Type::ipo:
        return square(a - b - half_over_beta());
      case Type::exo_pair:
        return divergence_from_labels(u, e);
      case Type::nca_pair:
        return -log_sigmoid(x) - 0.5 * (log_sigmoid(-x) + log_sigmoid(-y));
      case Type::bco_pair:
        return -log_sigmoid(x) - log_sigmoid(-y);
      case Type::sppo_hard:
        return square(a - half_over_beta()) + square(b + half_over_beta());
      case Type::apo_zero:
        return logistic(-x) + logistic(y);
      case Type::apo_down:
        return logistic(x) + logistic(-u);
      case Type::discopop:
        return mixture(u, options_.discopop_tau);
      default:
        return smoothed(u, e);
    }
  }

  /// What the difference of rewards is to be, beta being the weight of a KL term.
  Var half_over_beta() const { return 1.0 / (2.0 * beta()); }

  /// Returns the losses by rank: of the differences of policy and reference, or of the scores of
  /// chosen and rejected sequences.
  std::vector<Var> losses_by_rank() {
    const bool is_unpaired = options_.loss_type == DpoLossType::aot_unpaired;
    std::vector<Var> firsts;
    std::vector<Var> seconds;
    for (const auto& [chosen, rejected] : pairs_) {
      firsts.push_back(is_unpaired ? chosen.score : chosen.logprob - rejected.logprob);
      seconds.push_back(is_unpaired ? rejected.score : Var(chosen.reference - rejected.reference));
    }
    const Ranked first(firsts);
    const Ranked second(seconds);
    sides_ = std::max({sides_, first.most_ranks(), is_unpaired ? second.most_ranks() : 1});
    std::int64_t& crossed = truth_.branches["pairs_ranked_apart"];
    std::vector<Var> losses;
    for (std::size_t rank = 0; rank < firsts.size(); ++rank) {
      const std::size_t i = first.item(rank);
      const std::size_t j = second.item(rank);
      crossed += i != j ? 1 : 0;
      const Enclosure by_first = slope_at_ranks(first, i, second, 1);
      const Enclosure by_second = slope_at_ranks(second, j, first, -1);
      const Var value = smoothed(beta() * (Var(first.statistic(rank)) - second.statistic(rank)),
                                 options_.label_smoothing);
      losses.push_back(Tape::record(value.enclosure(), firsts[i], by_first, seconds[j], by_second));
    }
    return losses;
  }

  /// Returns the derivative of the loss by number `item`, over the ranks that it may have or at the
  /// rank of the side that is taken; `sign`: -1 if it is the one that is subtracted.
  Enclosure slope_at_ranks(const Ranked& own, std::size_t item, const Ranked& other, double sign) {
    const auto [first, last] = own.ranks(item);
    const auto slope_at = [&](std::size_t rank) {
      Tape tape;
      const Var x = tape.variable(own.number(item));
      const Var loss =
          smoothed(beta() * (sign * (x - other.statistic(rank))), options_.label_smoothing);
      return tape.gradient(loss, std::vector<Var>{x})[0];
    };
    if (side_ >= 0) return slope_at(std::min(first + static_cast<std::size_t>(side_), last));
    Enclosure slope = slope_at(own.rank(item));
    for (std::size_t rank = first; rank <= last; ++rank) slope = hull(slope, slope_at(rank));
    return slope;
  }

  std::vector<Var> sft_terms() const {
    std::vector<Var> terms;
    for (const Pair& pair : pairs_) terms.push_back(pair.chosen.nll);
    return terms;
  }

  double global_pairs() const {
    return static_cast<double>(batch_.denominators.valid_sequences) / 2;
  }

  /// Returns the sum over pairs / pairs of the global batch.
  template <typename Number>
  Number of_pairs(const std::vector<Number>& terms) const {
    return global_pairs() > 0 ? sum(terms) / global_pairs() : Number(0.0);
  }

  void add_metrics(const Var& preference, const Var& sft) {
    std::vector<Enclosure> correct;
    std::vector<Enclosure> chosen_rewards;
    std::vector<Enclosure> rejected_rewards;
    for (const auto& [chosen, rejected] : pairs_) {
      correct.push_back(is_positive(chosen.score.enclosure() - rejected.score.enclosure()));
      chosen_rewards.push_back(chosen.score.enclosure());
      rejected_rewards.push_back(rejected.score.enclosure());
    }
    const double has_pairs = global_pairs() > 0 ? 1 : 0;
    truth_.metrics = {
        {"loss", {Reduction::sum, truth_.loss, 1}},
        {"preference_loss", {Reduction::sum, preference.enclosure(), 1}},
        {"sft_loss", {Reduction::sum, sft.enclosure(), 1}},
        {"accuracy", {Reduction::sum, of_pairs(correct), has_pairs}},
        {"rewards_chosen_mean", {Reduction::sum, of_pairs(chosen_rewards), has_pairs}},
        {"rewards_rejected_mean", {Reduction::sum, of_pairs(rejected_rewards), has_pairs}},
        {"num_valid_samples", {Reduction::count, static_cast<double>(pairs_.size()), 1}}};
  }

  const DpoOptions& options_;
  const PackedBatch& batch_;
  const std::span<const TokenTruth> rows_;
  const int side_;
  int sides_ = 1;
  Tape tape_;
  std::vector<Var> logprobs_;
  std::vector<std::int64_t> row_of_;
  std::vector<Pair> pairs_;
  ObjectiveTruth truth_;
};

}  // namespace

ObjectiveTruth dpo_truth(const DpoOptions& options, const PackedBatch& batch,
                         std::span<const TokenTruth> rows) {
  DpoTruth all(options, batch, rows, -1);
  ObjectiveTruth truth = all.take();
  if (all.sides() == 1) return truth;
  std::vector<std::vector<Enclosure>> by_side;
  for (int side = 0; side < all.sides(); ++side) {
    by_side.push_back(DpoTruth(options, batch, rows, side).take().grad_logprob);
  }
  truth.grad_sides = different_gradients(by_side);
  return truth;
}

}  // namespace lossgrid
