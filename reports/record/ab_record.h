// SPDX-License-Identifier: Apache-2.0
// What an A/B comparison leaves behind, as plain values: one phase of a case on a grid, timed by A
// and by B in several launches, and the verdict. With its JSON and text forms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/error.h"
#include "harness/core/terminal.h"
#include "reports/change/ab_statistics.h"

namespace lossgrid {

struct AbRecord {
  std::string case_title;  // name and text of the case
  std::string grid;        // "tp2cp1"
  std::string cache;       // "hot", "cold"
  std::string phase;       // "forward", "backward", "forward_backward"
  // Implementations; of two builds "fused (base)" and "fused (head)". The same: A against itself.
  std::string a;
  std::string b;
  MedianRatio ratio;                  // time of B / time of A, > 1: B is slower
  std::vector<double> launch_ratios;  // in the order of the launches
  std::int64_t pairs = 0;             // of samples behind a ratio, in the launch with the fewest
  double margin = 0;                  // part of A's time that B may take longer
  std::uint64_t seed = 0;             // of the random orders
  AbVerdict verdict = AbVerdict::inconclusive;

  bool is_self_check() const { return a == b; }
  /// A self-check that finds a difference.
  bool is_false_alarm() const;
};

/// The worst of: regressed time_regression, inconclusive with `strict` inconclusive. What improved
/// never fails. Of a self-check, which must be OK, a false alarm rank_crashed, as any meter that is
/// wrong, and inconclusive always.
ExitCode exit_code_of(const std::vector<AbRecord>& records, bool strict);

nlohmann::ordered_json ab_to_json(const AbRecord& record);
/// Throws bad_input.
AbRecord ab_from_json(const nlohmann::ordered_json& json);

/// A row for each record, a title for each case, grid and state of the cache; then what the ratios
/// are, and what self-checks found. Lines that end in '\n'; empty when there are no records.
std::string format_ab_table(const std::vector<AbRecord>& records, const TextStyle& style = {});

}  // namespace lossgrid
