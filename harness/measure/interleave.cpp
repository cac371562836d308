// SPDX-License-Identifier: Apache-2.0
// Random numbers are functions of (seed, round, place): there is no state in which ranks could
// differ.
#include "harness/measure/interleave.h"

#include <numeric>
#include <utility>

#include "harness/core/philox.h"

namespace lossgrid {

void round_order(std::uint64_t seed, std::int64_t round, std::span<std::size_t> order) {
  constexpr std::uint32_t kStream = 0x4F524445;  // apart from the streams of cases
  const RandomStream random(seed, kStream);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = order.size(); left > 1; --left) {
    const std::uint32_t other =
        random.below(static_cast<std::uint32_t>(left), static_cast<std::uint64_t>(round),
                     static_cast<std::uint32_t>(left));
    std::swap(order[left - 1], order[other]);
  }
}

}  // namespace lossgrid
