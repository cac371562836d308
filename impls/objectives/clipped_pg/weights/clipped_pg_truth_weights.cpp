// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/weights/clipped_pg_truth_weights.h"

#include <utility>

namespace lossgrid {
namespace {

/// Log weights of a sequence: of its valid tokens, and the sum and mean of those that count.
struct SequenceLogs {
  std::vector<Enclosure> tokens;
  Enclosure sum;
  Enclosure mean;
};

/// True if there is a weight. One token without makes the product of its sequence 0.
bool is_known(const Enclosure& log) {
  return log.value != kNoLogWeight;
}

/// Returns the weight, infinite for one that does not exist.
Enclosure weight_of(const Enclosure& log) {
  return is_known(log) ? exp(log) : log;
}

/// `counted`: 1 for tokens that count, else 0. `without_unknown`: the unknown ones count as 0.
SequenceLogs sequence_logs(const std::vector<Enclosure>& logs,
                           const std::vector<Enclosure>& counted, bool without_unknown) {
  std::vector<Enclosure> terms;
  double low = 0;
  double high = 0;
  double value = 0;
  bool is_any_unknown = false;
  for (std::size_t k = 0; k < logs.size(); ++k) {
    is_any_unknown |= !is_known(logs[k]);
    terms.push_back(is_known(logs[k]) ? counted[k] * logs[k] : Enclosure());
    low += counted[k].low;
    high += counted[k].high;
    value += counted[k].value;
  }
  const Enclosure total = sum(terms);
  if (is_any_unknown && !without_unknown) return {logs, kNoLogWeight, kNoLogWeight};
  if (value == 0) return {logs, total, 0.0};
  Enclosure count = value;
  count.low = low;
  count.high = high;
  return {logs, total, total * (1.0 / count)};
}

class WeightTruth {
 public:
  WeightTruth(const ClippedPgOptions& options, Side side,
              std::map<std::string, std::int64_t>& branches)
      : options_(options), side_(side), branches_(branches) {}

  /// Computes weights for each token, with bounds on each.
  void add_tokens(const std::vector<Enclosure>& logs) {
    std::vector<Enclosure>& of_tokens = weights_.tokens.emplace_back();
    for (const Enclosure& log : logs) {
      const Enclosure weight = finite("is_weight", weight_of(log));
      weights_.out_of_bounds.push_back(is_outside(weight));
      of_tokens.push_back(truncated(weight, weights_.out_of_bounds.back()));
    }
  }

  /// Computes weights for each token, with bounds on their geometric mean.
  void add_masked_sequence(const SequenceLogs& logs, bool counts) {
    const Enclosure out = is_outside(exp(logs.mean));
    std::vector<Enclosure>& of_tokens = weights_.tokens.emplace_back();
    for (const Enclosure& log : logs.tokens) {
      of_tokens.push_back(zero_if(out, finite("is_weight", weight_of(log))));
    }
    if (!counts) return;
    weights_.out_of_bounds.push_back(out);
    count("sequence_masked", out.value > 0);
    count("sequence_kept", out.value <= 0);
  }

  /// Computes one weight for all tokens of a sequence.
  void add_sequence(const SequenceLogs& logs, bool counts) {
    if (!counts) {  // nor has it valid tokens
      weights_.tokens.emplace_back();
      return;
    }
    const bool is_geometric = options_.rollout_is == WeightLevel::geometric;
    const Enclosure weight =
        finite("sequence_is_weight", weight_of(is_geometric ? logs.mean : logs.sum));
    weights_.out_of_bounds.push_back(is_outside(weight));
    weights_.sequences.push_back(truncated(weight, weights_.out_of_bounds.back()));
    weights_.tokens.emplace_back(logs.tokens.size(), weights_.sequences.back());
  }

  TrueWeights take() { return std::move(weights_); }

 private:
  void count(const std::string& branch, bool is_taken) { branches_[branch] += is_taken ? 1 : 0; }

  /// Returns the weight, 0 if it is not finite in float32; counts the side of the bounds it is on.
  Enclosure finite(const std::string& name, const Enclosure& weight) {
    const bool is_finite = is_finite_float(weight.value);
    const Truncation type = options_.truncated_importance_sampling_type;
    const bool has_bounds = type == Truncation::tis || type == Truncation::icepop;
    const auto& low = options_.truncated_importance_sampling_ratio_min;
    const bool above =
        is_finite && has_bounds && weight.value > *options_.truncated_importance_sampling_ratio;
    const bool below = is_finite && has_bounds && low && weight.value < *low;
    count(name + "_not_finite", !is_finite);
    count(name + "_inside", is_finite && !above && !below);
    if (has_bounds) count(name + "_above", above);
    if (has_bounds && low) count(name + "_below", below);
    if (is_finite_float(weight.low) == is_finite_float(weight.high)) {
      return is_finite ? weight : 0.0;
    }
    return finite_or_zero(weight);
  }

  /// Returns a weight that is finite in float32 or, by a rounding error, 0.
  Enclosure finite_or_zero(const Enclosure& weight) {
    weights_.straddles = true;
    Enclosure finite_one = is_finite_float(weight.value) ? weight.value : weight.low;
    finite_one.low = weight.low;
    finite_one.high = std::numeric_limits<float>::max();
    if (side_ != Side::either) return side_ == Side::second ? 0.0 : finite_one;
    return is_finite_float(weight.value) ? hull(finite_one, 0.0) : hull(0.0, finite_one);
  }

  /// Returns `a` if `out` is 0, else 0.
  Enclosure zero_if(const Enclosure& out, const Enclosure& a) {
    if (out.is_exact()) return out.value == 0 ? a : 0.0;
    weights_.straddles = true;
    if (side_ != Side::either) return side_ == Side::second ? 0.0 : a;
    return out.value == 0 ? hull(a, 0.0) : hull(0.0, a);
  }

  Enclosure is_outside(const Enclosure& weight) const {
    if (options_.truncated_importance_sampling_type == Truncation::none) return 0.0;
    const Enclosure above =
        is_positive(weight - constant(*options_.truncated_importance_sampling_ratio));
    const auto& low = options_.truncated_importance_sampling_ratio_min;
    return low ? max(above, is_positive(constant(*low) - weight)) : above;
  }

  Enclosure truncated(const Enclosure& weight, const Enclosure& out) {
    switch (options_.truncated_importance_sampling_type) {
      case Truncation::tis:
        return limited(weight, options_.truncated_importance_sampling_ratio_min.value_or(0),
                       *options_.truncated_importance_sampling_ratio);
      case Truncation::icepop:
        return zero_if(out, weight);
      default:
        return weight;
    }
  }

  const ClippedPgOptions& options_;
  const Side side_;
  std::map<std::string, std::int64_t>& branches_;
  TrueWeights weights_;
};

}  // namespace

TrueWeights true_weights(const ClippedPgOptions& options, std::span<const std::uint8_t> sample_mask,
                         const ByToken<Enclosure>& log_weights, const ByToken<Enclosure>& keeps,
                         Side side, std::map<std::string, std::int64_t>& branches) {
  WeightTruth weights(options, side, branches);
  for (std::size_t i = 0; i < log_weights.size(); ++i) {
    const bool counts = sample_mask[i] != 0;
    const std::vector<Enclosure> all(log_weights[i].size(), 1.0);
    const bool masks = options.truncated_importance_sampling_type == Truncation::seq_mask_tis;
    const SequenceLogs logs =
        sequence_logs(log_weights[i], options.token_masks_first ? keeps[i] : all, masks);
    if (options.weighs_sequences()) {
      weights.add_sequence(logs, counts);
    } else if (masks) {
      weights.add_masked_sequence(logs, counts);
    } else {
      weights.add_tokens(log_weights[i]);
    }
  }
  return weights.take();
}

}  // namespace lossgrid
