// SPDX-License-Identifier: Apache-2.0
// `PairCoverage`: counts of the pairs of settings that drawn cases had, and in which both decided.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/hunt/setting.h"

namespace lossgrid {

class PairCoverage {
 public:
  /// Number of different pairs of two kinds of settings.
  struct Count {
    std::int64_t drawn = 0;
    std::int64_t decided = 0;
  };
  using Kinds = std::pair<SettingKind, SettingKind>;  // the first is not behind the second

  /// Returns the number of pairs among `settings` that have not decided yet.
  std::int64_t open_pairs(const std::vector<Setting>& settings) const;

  /// Notes a case with these settings, of which `deciding` decide.
  void add(const std::vector<Setting>& settings, const std::vector<Setting>& deciding);

  /// Returns the counts of pairs by the kinds of their settings.
  std::map<Kinds, Count> by_kinds() const;

 private:
  struct Pair {
    Kinds kinds;
    bool has_decided = false;
  };

  std::map<std::pair<std::string, std::string>, Pair> pairs_;  // by labels, the smaller one first
};

}  // namespace lossgrid
