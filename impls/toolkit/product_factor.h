// SPDX-License-Identifier: Apache-2.0
// Dtype of hidden states, and of gradients of logits, as factors of products with a weight.
#pragma once

#include <optional>

#include "harness/device/backend.h"
#include "harness/device/gemm.h"

namespace lossgrid {

/// Returns the dtype of the factor that is multiplied with a weight in `dtype`: on the processor,
/// bf16 is multiplied in the requested way, or else in the faster way, by measurement.
inline DType product_factor_dtype(DType dtype, Backend backend,
                                  std::optional<Bf16Gemm> asked = std::nullopt) {
  if (dtype != DType::bf16) return DType::f32;
  if (!traits_of(backend).has_bf16_choice) return DType::bf16;
  const Bf16Gemm way = asked ? *asked : bf16_gemm_rates().faster();
  return way == Bf16Gemm::native ? DType::bf16 : DType::f32;
}

}  // namespace lossgrid
