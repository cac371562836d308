// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/value/value_truth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "harness/loss/tape.h"
#include "impls/objectives/pairs/pair_truth.h"

namespace lossgrid {
namespace {

/// Returns a + b as in a float32 computation; exact if the sum is a float32.
Enclosure float32_sum(double a, const Enclosure& b) {
  const double sum = a + b.value;
  const bool is_float32 = static_cast<double>(static_cast<float>(sum)) == sum;
  return b.is_exact() && is_float32 ? Enclosure(sum) : Enclosure(a) + b;
}

/// True for exact distances of equal size, whose losses are equal in every arithmetic.
bool is_tie(const Enclosure& a, const Enclosure& b) {
  return a.is_exact() && b.is_exact() && std::abs(a.value) == std::abs(b.value);
}

struct TrueValueLoss {
  Var loss;
  Enclosure is_clipped = 0.0;  // 1 where the clipped loss is larger
};

class ValueTruth {
 public:
  ValueTruth(const ValueOptions& options, const PackedBatch& batch,
             std::span<const TokenTruth> rows)
      : options_(options), batch_(batch), rows_(rows) {}

  ObjectiveTruth take() {
    gradient().assign(rows_.size(), 0.0);
    truth_.grad_logprob.assign(rows_.size(), 0.0);
    std::vector<Enclosure> losses;
    for (std::int64_t i = 0; i < batch_.sequences(); ++i) {
      if (batch_.sample_mask[i] == 0) continue;
      std::vector<std::int64_t> tokens;
      for (std::int64_t t = 1; t < batch_.length(i); ++t) {  // no state precedes the first token
        if (batch_.token_mask[batch_.cu_seqlens[i] + t] != 0) tokens.push_back(t);
      }
      for (const std::int64_t t : tokens) losses.push_back(add_token(i, t, std::ssize(tokens)));
    }
    truth_.loss = sum(losses);
    add_metrics();
    return std::move(truth_);
  }

 private:
  std::vector<Enclosure>& gradient() { return truth_.grad_terms[RowTerm::logsumexp]; }

  /// Adds the token t of sequence i, which has `tokens` valid tokens. Returns the token's part of
  /// the loss.
  Enclosure add_token(std::int64_t i, std::int64_t t, std::int64_t tokens) {
    const std::int64_t token = batch_.cu_seqlens[i] + t;
    const std::int64_t row = batch_.cu_seqlens_padded[i] + t - 1;
    const Enclosure value = rows_[row].terms[RowTerm::logsumexp];
    const double target = input(TokenInput::returns, token);
    TrueValueLoss of_token;
    const auto on_side = [&](Side side, bool& straddles) {
      Tape tape;
      const Var variable = tape.variable(value);
      of_token = loss_of(tape, variable, target, token, side);
      const Var part = in_loss(rounded_option(options_.scale) * of_token.loss, tokens);
      of_token.loss = part;
      straddles = tape.straddles();
      return tape.gradient(part, std::array{variable})[0];
    };
    bool straddles = false;
    gradient()[row] = on_side(Side::either, straddles);
    const TrueValueLoss either = of_token;
    count_branches(value.value, target, token);
    for (const Side side : {Side::first, Side::second, Side::tie}) {
      bool is_open = false;
      if (straddles) truth_.grad_sides[row].push_back(on_side(side, is_open));
    }
    if (straddles) move_to_a_side(truth_.grad_sides[row], gradient()[row]);
    values_.push_back(value);
    returns_.push_back(target);
    squared_returns_.push_back(Enclosure(target) * Enclosure(target));
    const Enclosure residual = Enclosure(target) - value;
    squared_residuals_.push_back(residual * residual);
    clipped_.push_back(either.is_clipped);
    return either.loss.enclosure();
  }

  /// Gives a gradient the value of the first of its sides if it has that of none: halves of the
  /// maximum and of the clip meet where the value is at the end of the range in float64 alone.
  static void move_to_a_side(const std::vector<Enclosure>& sides, Enclosure& gradient) {
    const bool is_on_one = std::any_of(sides.begin(), sides.end(), [&](const Enclosure& side) {
      return side.low <= gradient.value && gradient.value <= side.high;
    });
    if (!is_on_one) gradient.value = sides.front().value;
  }

  double input(TokenInput which, std::int64_t token) const {
    return static_cast<double>(batch_.inputs[static_cast<std::size_t>(which)][token]);
  }

  /// Returns the loss of a token. `side` is the side of the maximum if the value is beyond the
  /// range.
  TrueValueLoss loss_of(Tape& tape, const Var& value, double target, std::int64_t token,
                        Side side) const {
    const Var whole = loss_of_distance(value - target);
    if (!options_.clips()) return {whole};
    const double old_value = input(TokenInput::old_values, token);
    const Enclosure clip = rounded_option(options_.clip).enclosure();
    const Enclosure low = float32_sum(old_value, -clip);
    const Enclosure high = float32_sum(old_value, clip);
    // Inside the range, ends included, both losses are the same number, and each has half of the
    // gradient.
    const Enclosure& own = value.enclosure();
    if (low.high <= own.low && own.high <= high.low) return {whole};
    tape.take_side(side == Side::either ? side : Side::second);
    const Var clipped = min(max(value, Var(low)), Var(high));
    const Var of_clipped = loss_of_distance(clipped - target);
    if (is_tie(float32_sum(-target, own), float32_sum(-target, clipped.enclosure()))) {
      return {Tape::record(whole.enclosure(), whole, 0.5, of_clipped, 0.5)};
    }
    tape.take_side(side);
    return {max(whole, of_clipped), is_positive(of_clipped.enclosure() - whole.enclosure())};
  }

  /// Returns d^2 / 2, or Huber's loss. Both are the same to first order at its bend.
  Var loss_of_distance(const Var& d) const {
    if (!(abs(d.enclosure()).low > options_.delta)) return Var(0.5) * d * d;
    const Var delta = rounded_option(options_.delta);
    return delta * ((d.value() < 0 ? -d : d) - Var(0.5) * delta);
  }

  /// Returns the contribution of a token's loss to the aggregate.
  Var in_loss(const Var& loss, std::int64_t tokens) const {
    const Denominators& counts = batch_.denominators;
    const auto over = [](const Var& terms, std::int64_t count) {
      return count > 0 ? terms / static_cast<double>(count) : Var(0.0);
    };
    switch (options_.aggregation.mode) {
      case AggregationMode::token_mean:
        return over(loss, counts.valid_tokens);
      case AggregationMode::token_sum:
        return loss;
      case AggregationMode::sequence_mean_token_mean:
        return over(over(loss, tokens), counts.trained_sequences);
      case AggregationMode::sequence_mean_token_sum_norm:
        return over(loss / rounded_option(options_.aggregation.scale_factor),
                    counts.trained_sequences);
      default:
        return over(loss, counts.trained_sequences);
    }
  }

  void count_branches(double value, double target, std::int64_t token) {
    std::map<std::string, std::int64_t>& branches = truth_.branches;
    ++branches["tokens"];
    branches["huber_linear"] += std::abs(value - target) > options_.delta ? 1 : 0;
    if (!options_.clips()) return;
    const double old_value = input(TokenInput::old_values, token);
    const double end = value < old_value ? old_value - options_.clip : old_value + options_.clip;
    const double beyond = std::abs(value - old_value) - std::abs(end - old_value);
    branches["value_inside"] += beyond < 0 ? 1 : 0;
    branches["value_at_end"] += value == end ? 1 : 0;
    if (!(beyond > 0)) return;
    const double apart = std::abs(value - target) - std::abs(end - target);
    branches[value > old_value ? "value_above" : "value_below"] += 1;
    branches["value_clipped"] += apart < 0 ? 1 : 0;
    branches["value_not_clipped"] += apart > 0 ? 1 : 0;
    branches["value_tie"] += apart == 0 ? 1 : 0;
    branches["return_between"] += (value - target) * (end - target) < 0 ? 1 : 0;
  }

  void add_metrics() {
    const auto count = static_cast<double>(values_.size());
    std::map<std::string, MetricTruth>& metrics = truth_.metrics;
    const auto mean = [&](const std::vector<Enclosure>& terms) {
      return MetricTruth{Reduction::mean, sum(terms), count};
    };
    metrics["loss"] = {Reduction::sum, truth_.loss, 1};
    metrics["num_unmasked_tokens"] = {Reduction::count, count, 1};
    metrics["vf_clipfrac"] = mean(clipped_);
    metrics["returns_mean"] = mean(returns_);
    metrics["returns_sq_mean"] = mean(squared_returns_);
    metrics["residual_sq_mean"] = mean(squared_residuals_);
    metrics["values_mean"] = mean(values_);
    MetricTruth least{Reduction::min, 0.0, count};
    MetricTruth most{Reduction::max, 0.0, count};
    for (std::size_t k = 0; k < values_.size(); ++k) {
      least.amount = k == 0 ? values_[k] : min(least.amount, values_[k]);
      most.amount = k == 0 ? values_[k] : max(most.amount, values_[k]);
    }
    metrics["values_min"] = least;
    metrics["values_max"] = most;
    metrics["explained_variance"] = explained_variance(count);
    metrics["explained_variance"].is_derived = true;
  }

  /// Returns 1 - (E[(R - v)^2] - (E[R] - E[v])^2) / (E[R^2] - E[R]^2).
  MetricTruth explained_variance(double count) const {
    if (count == 0) return {Reduction::mean, 0.0, 0};
    const Enclosure mean = sum(returns_) / count;
    const Enclosure spread = sum(squared_returns_) / count - mean * mean;
    if (!(spread.value > 0)) return {Reduction::mean, 0.0, 0};
    const Enclosure apart = mean - sum(values_) / count;
    const Enclosure of_residuals = sum(squared_residuals_) / count - apart * apart;
    return {Reduction::mean, Enclosure(1.0) - of_residuals / spread, 1};
  }

  const ValueOptions& options_;
  const PackedBatch& batch_;
  const std::span<const TokenTruth> rows_;
  ObjectiveTruth truth_;
  std::vector<Enclosure> values_;
  std::vector<Enclosure> returns_;
  std::vector<Enclosure> squared_returns_;
  std::vector<Enclosure> squared_residuals_;
  std::vector<Enclosure> clipped_;
};

}  // namespace

ObjectiveTruth value_truth(const ValueOptions& options, const PackedBatch& batch,
                           std::span<const TokenTruth> rows) {
  return ValueTruth(options, batch, rows).take();
}

}  // namespace lossgrid
