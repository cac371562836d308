// SPDX-License-Identifier: Apache-2.0
// `DeclaredRoundings`: roundings that an implementation declares and bounds depend on. Roundings of
// logits are not among them: they are part of the truth (make_truth).
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"

namespace lossgrid {

struct DeclaredRoundings {
  DType grad_logits = DType::f32;  // dtype of the gradient of logits in the products of an lm_head
  std::int64_t weight_adds = 1;    // additions to the weight's gradient, on the rank with the most
  DType weight_part = DType::f32;  // dtype of each part of the weight's gradient
  std::int64_t weight_parts = 1;   // parts that are added up on all ranks
  DType weight_sum = DType::f32;   // dtype of the sum of the parts
  double loss = unit_roundoff(DType::f32);  // relative
};

}  // namespace lossgrid
