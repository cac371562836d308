// SPDX-License-Identifier: Apache-2.0
// `FailedElements`: counts and sums over the elements of a gradient that are beyond their bounds,
// to find a common cause. A right gradient costs nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/core/dtype.h"

namespace lossgrid {

struct FailedElements {
  std::int64_t count = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t zero = 0;  // zeros where the truth is not zero
  // Number of nonzero float32 elements whose truth, in float32, is not a bfloat16 number
  // (bits_compared), and the number of these elements that are bfloat16 numbers nevertheless.
  std::int64_t bits_compared = 0;
  std::int64_t bits_of_bf16 = 0;
  // Sums over the elements that are finite and have a finite truth.
  double got_squared = 0;
  double got_want = 0;
  double want_squared = 0;
  double roundoff = 0;                 // unit roundoff of the gradient's dtype
  std::vector<std::int64_t> nan_rows;  // rows of the whole batch, ascending, each once

  /// Adds an element. `held` is the number in memory, which differs from `got` only where a
  /// gradient is added to earlier gradients.
  void add(double got, double want, double held, DType out);
  void add_nan_row(std::int64_t row);
  void add(const FailedElements& other);

  /// Returns the factor c if the elements are c times their truth, else nullopt. They are if the
  /// remaining error |got - c want| is at most a hundredth of |got - want| and of |got|, or two
  /// roundings of |got| (Euclidean norms). Numbers unrelated to their truth are nearly orthogonal
  /// to it, which must not count as a small factor.
  std::optional<double> common_factor() const;
  /// True if the elements of a float32 gradient are numbers of bfloat16.
  bool are_bf16() const;
};

}  // namespace lossgrid
