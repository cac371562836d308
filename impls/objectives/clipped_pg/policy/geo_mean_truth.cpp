// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/policy/geo_mean_truth.h"

#include <limits>

#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"

namespace lossgrid {

std::vector<Var> geo_mean_logs(const ClippedPgOptions& options, const std::vector<Var>& logs,
                               const std::vector<double>& advantages,
                               std::map<std::string, std::int64_t>& branches) {
  constexpr double kNoBound = std::numeric_limits<double>::infinity();
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

}  // namespace lossgrid
