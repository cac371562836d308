// SPDX-License-Identifier: Apache-2.0
#include "reports/change/relative_time.h"

#include <cmath>

namespace lossgrid {
namespace {

std::optional<RelativeTime> over_a_ceiling(const TimingRecord& timing, const TimingRow& row) {
  if (!row.ceiling.empty()) return {};
  for (const CeilingRow& ceiling : timing.ceilings) {
    if (ceiling.name == "read" || ceiling.time.median_ns <= 0) continue;
    return RelativeTime{
        .reference = ceiling.name,
        .ratio =
            static_cast<double>(row.time.median_ns) / static_cast<double>(ceiling.time.median_ns),
        .stderr_ratio = std::hypot(row.time.stderr_ratio, ceiling.time.stderr_ratio)};
  }
  return {};
}

}  // namespace

std::optional<RelativeTime> relative_time(const TimingRecord& timing, const TimingRow& row) {
  if (row.status >= TimingStatus::above_ceiling || row.status == TimingStatus::skipped) return {};
  if (row.speedup && *row.speedup > 0 && row.implementation != timing.baseline) {
    double squares = row.time.stderr_ratio * row.time.stderr_ratio;
    for (const TimingRow& other : timing.rows) {
      if (other.implementation != timing.baseline || other.phase != row.phase) continue;
      squares += other.time.stderr_ratio * other.time.stderr_ratio;
    }
    return RelativeTime{.reference = timing.baseline,
                        .ratio = 1 / *row.speedup,
                        .stderr_ratio = std::sqrt(squares)};
  }
  if (row.ceiling_ratio && *row.ceiling_ratio > 0) {
    return RelativeTime{.reference = row.ceiling,
                        .ratio = 1 / *row.ceiling_ratio,
                        .stderr_ratio = row.time.stderr_ratio};
  }
  return over_a_ceiling(timing, row);
}

}  // namespace lossgrid
