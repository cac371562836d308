// SPDX-License-Identifier: Apache-2.0
// `Slope`: a number and its derivative. nvcc compiles this header.
#pragma once

namespace lossgrid {

template <typename Real>
struct Slope {
  Real value = 0;
  Real slope = 0;
};

}  // namespace lossgrid
