// SPDX-License-Identifier: Apache-2.0
// `Dice`: random choices that follow from a seed and the number of a draw. Every process of a job
// makes the same ones.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "harness/core/philox.h"

namespace lossgrid {

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t draw) : random_(seed, kStream), draw_(draw) {}

  /// Returns a number in [0, n), n >= 1.
  std::uint32_t below(std::size_t n) {
    return random_.below(static_cast<std::uint32_t>(n), draw_, next_++);
  }
  /// Returns a number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + below(static_cast<std::size_t>(high - low + 1));
  }
  /// Returns true once in `n` times.
  bool one_in(std::size_t n) { return below(n) == 0; }

  /// Returns one of `values`, which has some.
  template <typename T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t k = values.size(); k > 1; --k) std::swap(values[k - 1], values[below(k)]);
  }

 private:
  static constexpr std::uint32_t kStream = 0x68756e74;  // none of a case's own

  RandomStream random_;
  std::uint64_t draw_;
  std::uint32_t next_ = 0;
};

}  // namespace lossgrid
