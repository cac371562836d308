// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/policy/policy_losses_truth.h"

#include <cmath>
#include <limits>

#include "impls/objectives/clipped_pg/weights/clipped_pg_truth_weights.h"

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

}  // namespace

Var limited(const Var& a, double low, double high) {
  const Var near = Tape::record(rounded(a.enclosure(), 2), a, 1.0);
  return Tape::record(limited(a.enclosure(), low, high), clamp(near, low, high), 1.0);
}

std::vector<Var> geo_mean_logs(const ClippedPgOptions& options, const std::vector<Var>& logs,
                               const std::vector<double>& advantages,
                               std::map<std::string, std::int64_t>& branches) {
  const double high = options.ratio_clip_max;
  const double low = -options.ratio_clip_min;
  std::vector<Var> used;
  std::size_t clipped = 0;
  for (std::size_t k = 0; k < logs.size(); ++k) {
    const double log = logs[k].value();
    if (advantages[k] == 0) {
      used.emplace_back(0.0);
      ++branches["geo_mean_zero"];
      continue;
    }
    const bool is_above = advantages[k] > 0;
    used.push_back(is_above ? limited(logs[k], -kNoBound, high) : limited(logs[k], low, kNoBound));
    const bool is_clipped = is_above ? log > high : log < low;
    clipped += is_clipped ? 1 : 0;
    ++branches[!is_clipped ? "geo_mean_open"
               : is_above  ? "geo_mean_clipped_above"
                           : "geo_mean_clipped_below"];
  }
  branches["sequence_all_clipped"] += !logs.empty() && clipped == logs.size() ? 1 : 0;
  return used;
}

VespoGates vespo_gates(const ClippedPgOptions& options, const Enclosure& sum,
                       std::map<std::string, std::int64_t>& branches) {
  const double low = std::log(1e-8);
  constexpr double kHigh = 20;
  ++branches[sum.value < low     ? "sequence_ratio_least"
             : sum.value > kHigh ? "sequence_ratio_largest"
                                 : "sequence_ratio_live"];
  const Enclosure log = limited(sum, low, kHigh);
  const auto gate = [&](double k, double lambda) {
    return exp(constant(lambda) + constant(k) * log - constant(lambda) * exp(log));
  };
  return {gate(options.vespo_k_pos, options.vespo_lambda_pos),
          gate(options.vespo_k_neg, options.vespo_lambda_neg)};
}

Enclosure has_diverged(const ClippedPgOptions& options, const Enclosure& x, const Enclosure& p,
                       double advantage) {
  const bool is_above = advantage > 0;
  const double bound = is_above ? options.ratio_clip_max : options.ratio_clip_min;
  if (options.policy_loss == PolicyLoss::dppo_tv ||
      options.policy_loss == PolicyLoss::dppo_binary_tv) {
    const Enclosure moved = probability(x) - probability(p);
    return is_positive((is_above ? moved : -moved) - constant(bound));
  }
  const Enclosure is_away = is_positive(is_above ? x - p : p - x);
  return min(is_away, is_positive(true_binary_kl(x, p) - constant(bound)));
}

}  // namespace lossgrid
