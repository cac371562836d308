// SPDX-License-Identifier: Apache-2.0
// `ValueDraw`: returns and old values of a value head for a case, drawn around its values: values
// inside of the clip range around the old ones, on both sides of it and on its ends; returns on
// both sides of the value and of the clipped value, between them, and in the middle, where the
// losses of both are equal. With spec.drift far, every third return is beyond the bend of a Huber
// loss. With edge, numbers are at an end of the range, at the middle or at the bend: the nearest
// float32, its neighbour, or 2^-10 away. With equal, returns and old values are the value.
#pragma once

#include "harness/problem/batch/input_draw.h"

namespace lossgrid {

class ValueDraw final : public InputDraw {
 public:
  /// `clip` is half of the range around old values, `bend` the bend in value - return. Infinite: no
  /// clip, no bend.
  ValueDraw(double clip, double bend) : clip_(clip), bend_(bend) {}

  DrawnInputs inputs(const TokenToDraw& token) const override;

 private:
  const double clip_;
  const double bend_;
};

}  // namespace lossgrid
