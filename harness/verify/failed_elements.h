// SPDX-License-Identifier: Apache-2.0
// What the elements of a gradient that are beyond their bounds have in common. Elements that passed
// leave no trace here, so a gradient that is right costs nothing.
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
  std::int64_t zero = 0;  // and whose truth is not
  // Of float32 elements that are not zero and whose truth, in float32, is no number of bfloat16;
  // and how many of them are such a number all the same.
  std::int64_t bits_compared = 0;
  std::int64_t bits_of_bf16 = 0;
  // Sums over those that are finite and have a finite truth.
  double got_squared = 0;
  double got_want = 0;
  double want_squared = 0;
  double roundoff = 0;                 // of the gradient's dtype
  std::vector<std::int64_t> nan_rows;  // of the whole batch, ascending, each once

  /// `held`: the number that stands there, which is `got` but where a gradient is added to others.
  void add(double got, double want, double held, DType out);
  void add_nan_row(std::int64_t row);
  void add(const FailedElements& other);

  /// The factor c with which they are c times their truth, where there is one: what is left of the
  /// error, |got - c want|, is at most a hundredth of |got - want|, or two roundings of |got|
  /// (Euclidean norms).
  std::optional<double> common_factor() const;
  /// Whether they are numbers of bfloat16 in a float32 gradient.
  bool are_bf16() const;
};

}  // namespace lossgrid
