// SPDX-License-Identifier: Apache-2.0
// Roundings that an implementation declares: bounds depend on them. Those of logits are part of the
// truth (make_truth).
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"

namespace lossgrid {

struct DeclaredRoundings {
  DType grad_logits = DType::f32;  // in which dtype it enters the products of an LM head
  std::int64_t weight_adds = 1;    // to the gradient of the weight, on the rank with the most
  DType weight_part = DType::f32;  // of each of the `weight_parts` that are added up on all ranks
  std::int64_t weight_parts = 1;
  DType weight_sum = DType::f32;            // of what they add up to
  double loss = unit_roundoff(DType::f32);  // relative
};

}  // namespace lossgrid
