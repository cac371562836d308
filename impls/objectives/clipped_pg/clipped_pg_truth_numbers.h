// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: numbers by token, and numbers of options beside them.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/loss/enclosure.h"
#include "harness/loss/tape.h"

namespace lossgrid {

/// Values of the valid tokens of every sequence.
template <typename T>
using ByToken = std::vector<std::vector<T>>;

template <typename T>
std::vector<T> flat(const ByToken<T>& by_token) {
  std::vector<T> all;
  for (const std::vector<T>& terms : by_token) all.insert(all.end(), terms.begin(), terms.end());
  return all;
}

/// A number from the options, which float32 rounds unless it holds it.
Enclosure constant(double value);

/// a in [low, high]; the ends are numbers from the options, two roundoffs for a sum with one.
Enclosure limited(const Enclosure& a, double low, double high);

/// As limited() of Enclosures, with the gradient of a closed clamp, whose ends are rounded too.
Var limited(const Var& a, double low, double high);

/// 1 / count: a right computation divides by the count or multiplies by this.
Enclosure reciprocal(std::int64_t count);

bool is_finite_float(double value);

}  // namespace lossgrid
