// SPDX-License-Identifier: Apache-2.0
// Alternating order. It depends on the round alone, never on a measured time: every rank comes to
// the same order without asking the others.
#include "harness/measure/interleave.h"

#include <algorithm>
#include <numeric>

namespace lossgrid {

std::vector<std::size_t> round_order(std::size_t items, std::int64_t round) {
  std::vector<std::size_t> order(items);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (round % 2 != 0) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace lossgrid
