// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/rejection/clipped_pg_truth_rejection.h"

#include <limits>
#include <optional>
#include <utility>

namespace lossgrid {
namespace {

class RejectionTruth {
 public:
  RejectionTruth(const ClippedPgOptions& options, Side side,
                 std::map<std::string, std::int64_t>& branches)
      : options_(options), side_(side), branches_(branches) {}

  void add(const std::vector<RejectionToken>& tokens) {
    std::vector<Enclosure>& alone = keeps_.alone.emplace_back();
    for (const RejectionToken& token : tokens) {
      const bool has_rule = options_.rejection_level == RejectionLevel::token;
      const bool is_read = has_rule && token.has_generation;
      const Enclosure is_out = is_read ? beyond(number(token.log_weight)) : 0.0;
      if (has_rule) count(is_out, "rejection_kept", "rejection_dropped");
      alone.push_back(1.0 - on_side(is_out));
    }
    const Enclosure sequence = tokens.empty() ? 1.0 : 1.0 - of_sequence(tokens);
    const Enclosure negative = tokens.empty() ? 1.0 : 1.0 - off_policy(tokens);
    std::vector<Enclosure>& kept = keeps_.tokens.emplace_back();
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      const Enclosure keep = alone[k] * sequence;
      kept.push_back(tokens[k].advantage < 0 ? keep * negative : keep);
    }
  }

  TrueKeeps take() { return std::move(keeps_); }

 private:
  Enclosure number(const Enclosure& log_weight) const {
    switch (options_.rejection_statistic) {
      case RejectionStatistic::k1:
        return log_weight;
      case RejectionStatistic::k2:
        return 0.5 * log_weight * log_weight;
      default:
        return exp(log_weight) - 1.0 - log_weight;
    }
  }

  /// Returns 1 if the number rejects, 0 if not, both if it may do either.
  Enclosure beyond(const Enclosure& number) const {
    const Enclosure high = constant(*options_.rollout_rs_threshold);
    if (options_.rejection_statistic != RejectionStatistic::k1) return is_positive(number - high);
    const Enclosure above = is_positive(number - log(high));
    const std::optional<double>& low = options_.rollout_rs_threshold_min;
    return low ? max(above, is_positive(log(constant(*low)) - number)) : above;
  }

  Enclosure is_vetoed(const Enclosure& log_weight) const {
    Enclosure outside = 0.0;
    if (options_.veto_ratio_min) {
      outside = max(outside, is_positive(log(constant(*options_.veto_ratio_min)) - log_weight));
    }
    if (options_.veto_ratio_max) {
      outside = max(outside, is_positive(log_weight - log(constant(*options_.veto_ratio_max))));
    }
    return outside;
  }

  /// Returns 1 if the weights of the tokens reject the sequence.
  Enclosure of_sequence(const std::vector<RejectionToken>& tokens) {
    const RejectionLevel level = options_.rejection_level;
    Enclosure vetoed = 0.0;
    Enclosure largest = 0.0;
    std::vector<Enclosure> numbers;
    for (const RejectionToken& token : tokens) {
      if (!token.has_generation) continue;
      vetoed = max(vetoed, is_vetoed(token.log_weight));
      numbers.push_back(number(token.log_weight));
      if (level == RejectionLevel::sequence_max) largest = max(largest, beyond(numbers.back()));
    }
    if (options_.vetoes()) count(vetoed, "sequence_not_vetoed", "sequence_vetoed");
    Enclosure rejected = 0.0;
    if (level == RejectionLevel::sequence_sum) rejected = beyond(sum(numbers));
    if (level == RejectionLevel::sequence_mean) {
      rejected = beyond(sum(numbers) * reciprocal(static_cast<std::int64_t>(tokens.size())));
    }
    if (level == RejectionLevel::sequence_max) rejected = largest;
    if (level > RejectionLevel::token) {
      count(rejected, "sequence_not_rejected", "sequence_rejected");
    }
    return on_side(max(vetoed, rejected));
  }

  /// Returns 1 if the sequence is too far from the policy that generated it.
  Enclosure off_policy(const std::vector<RejectionToken>& tokens) {
    if (!options_.off_policy_mask_threshold) return 0.0;
    std::vector<Enclosure> distances;
    for (const RejectionToken& token : tokens) {
      if (token.has_generation) distances.push_back(token.behaviour);
    }
    const Enclosure mean = sum(distances) * reciprocal(static_cast<std::int64_t>(tokens.size()));
    const Enclosure is_far = is_positive(mean - constant(*options_.off_policy_mask_threshold));
    count(is_far, "sequence_near_behaviour", "sequence_far_from_behaviour");
    return on_side(is_far);
  }

  /// Returns `is_out` on the side that is to be taken.
  Enclosure on_side(const Enclosure& is_out) {
    if (is_out.is_exact()) return is_out;
    keeps_.straddles = true;
    if (side_ == Side::either) return is_out;
    return side_ == Side::second ? 1.0 : 0.0;
  }

  void count(const Enclosure& is_out, const char* kept, const char* dropped) {
    branches_[kept] += is_out.value > 0 ? 0 : 1;
    branches_[dropped] += is_out.value > 0 ? 1 : 0;
  }

  const ClippedPgOptions& options_;
  const Side side_;
  std::map<std::string, std::int64_t>& branches_;
  TrueKeeps keeps_;
};

}  // namespace

TrueKeeps true_keeps(const ClippedPgOptions& options, const ByToken<RejectionToken>& tokens,
                     Side side, std::map<std::string, std::int64_t>& branches) {
  RejectionTruth keeps(options, side, branches);
  for (const std::vector<RejectionToken>& of_sequence : tokens) keeps.add(of_sequence);
  return keeps.take();
}

}  // namespace lossgrid
