// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/pair_coverage.h"

#include <algorithm>

namespace lossgrid {
namespace {

/// Calls f(a, b) for every pair of different keys among `settings`.
template <typename F>
void for_each_pair(const std::vector<Setting>& settings, F&& f) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    for (std::size_t k = i + 1; k < settings.size(); ++k) {
      const bool in_order = settings[i].label < settings[k].label;
      f(settings[in_order ? i : k], settings[in_order ? k : i]);
    }
  }
}

}  // namespace

std::int64_t PairCoverage::open_pairs(const std::vector<Setting>& settings) const {
  std::int64_t open = 0;
  for_each_pair(settings, [&](const Setting& a, const Setting& b) {
    const auto pair = pairs_.find({a.label, b.label});
    if (pair == pairs_.end() || !pair->second.has_decided) ++open;
  });
  return open;
}

void PairCoverage::add(const std::vector<Setting>& settings, const std::vector<Setting>& deciding) {
  for_each_pair(settings, [&](const Setting& a, const Setting& b) {
    pairs_.try_emplace({a.label, b.label}, Pair{std::minmax(a.kind, b.kind)});
  });
  for_each_pair(deciding, [&](const Setting& a, const Setting& b) {
    pairs_.at({a.label, b.label}).has_decided = true;
  });
}

std::map<PairCoverage::Kinds, PairCoverage::Count> PairCoverage::by_kinds() const {
  std::map<Kinds, Count> counts;
  for (const auto& [labels, pair] : pairs_) {
    Count& count = counts[pair.kinds];
    ++count.drawn;
    count.decided += pair.has_decided ? 1 : 0;
  }
  return counts;
}

}  // namespace lossgrid
