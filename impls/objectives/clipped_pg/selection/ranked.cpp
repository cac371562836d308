// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/selection/ranked.h"

#include <algorithm>
#include <numeric>

namespace lossgrid {

Ranked::Ranked(const std::vector<Var>& numbers) : order_(numbers.size()), rank_(numbers.size()) {
  std::vector<double> lows;
  std::vector<double> highs;
  for (const Var& number : numbers) {
    numbers_.push_back(number.enclosure());
    lows.push_back(number.enclosure().low);
    highs.push_back(number.enclosure().high);
  }
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return numbers_[a].value < numbers_[b].value;
  });
  std::sort(lows.begin(), lows.end());
  std::sort(highs.begin(), highs.end());
  for (std::size_t rank = 0; rank < order_.size(); ++rank) {
    rank_[order_[rank]] = rank;
    Enclosure statistic = numbers_[order_[rank]];
    statistic.low = lows[rank];
    statistic.high = highs[rank];
    statistics_.push_back(statistic);
  }
}

std::pair<std::size_t, std::size_t> Ranked::ranks(std::size_t item) const {
  std::size_t below = 0;      // numbers that are less in any case
  std::size_t not_above = 0;  // numbers that may be less
  for (std::size_t other = 0; other < numbers_.size(); ++other) {
    if (other == item) continue;
    below += numbers_[other].high < numbers_[item].low ? 1 : 0;
    not_above += numbers_[other].low <= numbers_[item].high ? 1 : 0;
  }
  return {below, not_above};
}

int Ranked::most_ranks() const {
  int most = 1;
  for (std::size_t item = 0; item < numbers_.size(); ++item) {
    const auto [first, last] = ranks(item);
    most = std::max(most, static_cast<int>(last - first + 1));
  }
  return most;
}

}  // namespace lossgrid
