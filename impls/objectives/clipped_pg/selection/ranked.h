// SPDX-License-Identifier: Apache-2.0
// Ranked: numbers in ascending order, and the ranks that each may have within its interval.
#pragma once

#include <utility>
#include <vector>

#include "harness/loss/tape.h"

namespace lossgrid {

class Ranked {
 public:
  explicit Ranked(const std::vector<Var>& numbers);

  /// Returns the index of the number that is at `rank` by value.
  std::size_t item(std::size_t rank) const { return order_[rank]; }
  std::size_t rank(std::size_t item) const { return rank_[item]; }
  const Enclosure& number(std::size_t item) const { return numbers_[item]; }
  /// Returns the interval of the number at `rank`, whichever it is.
  const Enclosure& statistic(std::size_t rank) const { return statistics_[rank]; }
  /// Returns the first and the last rank that a number may have.
  std::pair<std::size_t, std::size_t> ranks(std::size_t item) const;
  /// Returns the largest number of ranks that a number may have; 1 if there is none.
  int most_ranks() const;

 private:
  std::vector<Enclosure> numbers_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> rank_;
  std::vector<Enclosure> statistics_;
};

}  // namespace lossgrid
