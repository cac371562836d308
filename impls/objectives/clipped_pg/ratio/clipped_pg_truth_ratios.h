// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: ratios of tokens or sequences, and their clip bounds.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "impls/objectives/clipped_pg/aggregation/clipped_pg_truth_aggregation.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_part.h"
#include "impls/objectives/clipped_pg/policy/geo_mean_truth.h"

namespace lossgrid {

class TrueRatios : public TruthPart {
 public:
  explicit TrueRatios(TruthState& state) : TruthPart(state) {}

  /// Returns the ratio of every token, or the number that stands in its place.
  ByToken<Var> ratios() {
    if (options_.policy_loss == PolicyLoss::geo_mean) return geometric_means();
    if (options_.force_on_policy_ratio) {
      return each<Var>([](const TrueToken& token) { return score(token.x); });
    }
    if (options_.disable_ppo_ratio) {
      return each<Var>([](const TrueToken& token) { return token.x; });
    }
    ByToken<Var> logs = each<Var>([](const TrueToken& token) { return token.x - token.anchor; });
    for (std::vector<Var>& of_sequence : logs) {
      if (options_.sequence_level_importance_ratios) {
        const Var of_mean = TrueAggregation::mean(of_sequence);
        for (Var& log : of_sequence) {
          log = options_.gspo_token ? Tape::record(of_mean.enclosure(), log, 1.0) : of_mean;
        }
      }
      for (Var& log : of_sequence) log = exp(bounded_log(log));
    }
    return logs;
  }

  /// Returns the logarithm of a ratio in its bounds, beyond which there is no gradient.
  Var bounded_log(const Var& log) const {
    if (!options_.log_ratio_min && !options_.log_ratio_max) return log;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return limited(log, options_.log_ratio_min.value_or(-kInfinity),
                   options_.log_ratio_max.value_or(kInfinity));
  }

  /// Returns the same within the clip bounds, which geo_mean has none of.
  ByToken<Var> clipped_ratios(const ByToken<Var>& ratios) const {
    ByToken<Var> clipped = ratios;
    if (!has_ratio() || options_.policy_loss == PolicyLoss::geo_mean) return clipped;
    for (std::vector<Var>& of_sequence : clipped) {
      for (Var& rho : of_sequence) rho = limited(rho, lowest_ratio(), highest_ratio());
    }
    return clipped;
  }

  /// Counts the bounds of logarithms that a ratio reaches.
  void count_log_bounds(double rho) {
    const auto& low = options_.log_ratio_min;
    const auto& high = options_.log_ratio_max;
    if (low) truth_.branches["log_ratio_at_least"] += std::log(rho) <= *low + 1e-9 ? 1 : 0;
    if (high) truth_.branches["log_ratio_at_most"] += std::log(rho) >= *high - 1e-9 ? 1 : 0;
  }

  // The clip bounds.
  double lowest_ratio() const {
    switch (options_.cispo_bounds) {
      case CispoBounds::upper:
        return 0;
      case CispoBounds::absolute:
        return options_.ratio_clip_min;
      default:
        return 1 - options_.ratio_clip_min;
    }
  }
  double highest_ratio() const {
    const double offset = options_.cispo_bounds == CispoBounds::offset ? 1 : 0;
    return offset + options_.ratio_clip_max;
  }

 private:
  /// Returns the ratios of geo_mean, for each token that of its sequence.
  ByToken<Var> geometric_means() {
    ByToken<Var> ratios(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      std::vector<Var> logs;
      std::vector<double> advantages;
      for (const TrueToken& token : tokens_[i]) {
        logs.push_back(bounded_log(token.x - token.p));
        advantages.push_back(token.advantage);
      }
      const Var ratio =
          exp(TrueAggregation::mean(geo_mean_logs(options_, logs, advantages, truth_.branches)));
      ratios[i].assign(logs.size(), ratio);
    }
    return ratios;
  }

  /// False where another number, without clip bounds, stands in the place of rho.
  bool has_ratio() const { return !options_.force_on_policy_ratio && !options_.disable_ppo_ratio; }
};

}  // namespace lossgrid
