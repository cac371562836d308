// SPDX-License-Identifier: Apache-2.0
// `DeclaredConventions`: what the author of an implementation declares about its results, which are
// given to the harness without the declared factors.
#pragma once

#include "harness/loss/train_step.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

struct DeclaredConventions {
  bool returns_loss = false;
  ScaleFactor scale = {};  // factor of its loss and its gradient
  bool gradient_summed_over_cp = false;
  bool pads_with_minus_inf = false;  // columns beyond the vocabulary
  WeightGradientParts weight_gradient = WeightGradientParts::summands;
};

/// An implementation that declares them.
class DeclaresConventions {
 public:
  virtual ~DeclaresConventions() = default;
  virtual DeclaredConventions conventions() const = 0;
};

}  // namespace lossgrid
