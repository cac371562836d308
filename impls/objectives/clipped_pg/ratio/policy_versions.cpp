// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/ratio/policy_versions.h"

#include <algorithm>

#include "harness/problem/batch/draw.h"

namespace lossgrid {

double drawn_version(std::uint64_t seed, std::int64_t current, std::int64_t t) {
  const double pick = Draw(seed, Stream::versions, t).uniform(0);
  const auto now = static_cast<double>(current);
  if (pick < 0.25) return now - 1;
  if (pick < 0.55) return std::max(now - 2, 0.0);
  if (pick < 0.75) return std::max(now - 4, 0.0);
  if (pick < 0.85) return now;
  return pick < 0.9 ? now + 1 : -1;
}

double steps_behind(double version, std::int64_t current) {
  const double steps = static_cast<double>(current) - version;
  return version >= 0 && steps > 1 ? steps : 1;
}

}  // namespace lossgrid
