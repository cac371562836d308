// SPDX-License-Identifier: Apache-2.0
// `DeclaredConventions`: declarations of an implementation's author about its results. The harness
// gets the results without the declared factors.
#pragma once

#include "harness/loss/train_step.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

struct DeclaredConventions {
  bool returns_loss = false;
  ScaleFactor scale = {};  // factor of loss and gradient
  bool gradient_summed_over_cp = false;
  bool pads_with_minus_inf = false;  // logits of columns beyond the vocabulary are -inf
  WeightGradientParts weight_gradient = WeightGradientParts::summands;
};

/// Implementation that declares conventions.
class DeclaresConventions {
 public:
  virtual ~DeclaresConventions() = default;
  virtual DeclaredConventions conventions() const = 0;
};

}  // namespace lossgrid
