// SPDX-License-Identifier: Apache-2.0
// The last layer in front of the loss, logits = hidden weight^T, for bundles that hold hidden
// states and a weight instead of logits. Plain arithmetic in float64: logits are rounded to float32
// once, and a gradient of the logits is taken back to both factors as if that rounding were not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/problem/logits_source.h"

namespace lossgrid {

struct Projection {
  std::int64_t tokens = 0;    // T
  std::int64_t vocab = 0;     // V
  std::int64_t size = 0;      // H
  std::vector<float> hidden;  // [T, H]
  std::vector<float> weight;  // [V, H]
  // As the file stores them, f32 or bf16; the values above are exact for both.
  DType hidden_dtype = DType::f32;
  DType weight_dtype = DType::f32;
};

/// Row t, id v: the dot product of hidden[t] and weight[v] in float64, added up in order of H and
/// rounded to float32.
std::shared_ptr<const LogitsSource> make_projected_logits(
    std::shared_ptr<const Projection> projection);

/// [T, H] d loss / d hidden = dZ weight, from `grad_logits` dZ [T, V]. Throws internal when the
/// size is another.
std::vector<double> grad_hidden(const Projection& projection, std::span<const double> grad_logits);

/// [V, H] d loss / d weight = dZ^T hidden.
std::vector<double> grad_weight(const Projection& projection, std::span<const double> grad_logits);

}  // namespace lossgrid
