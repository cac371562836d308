// SPDX-License-Identifier: Apache-2.0
// Baselines of the row kernels: ordinary float32 loops with std::exp on one thread, vectorised by
// the compiler if at all. Only benchmarks use them. Same results as the Highway kernels up to
// rounding; the shift is the maximum.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/gbench/kernel_rows.h"

namespace lossgrid::plain {

/// Two passes: the largest logit, then the sum of exponentials and the target, as rows_statistics.
template <typename T>
void statistics(KernelRows<T>& rows) {
  const std::int64_t vocab = rows.view.shard.width;
  for (std::int64_t r = 0; r < kBenchmarkRows; ++r) {
    const T* logits = rows.logits.data() + r * vocab;
    float max = -std::numeric_limits<float>::infinity();
    for (std::int64_t v = 0; v < vocab; ++v) max = std::max(max, static_cast<float>(logits[v]));
    float sum = 0;
    for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<float>(logits[v]) - max);
    const auto row = static_cast<std::size_t>(r);
    rows.shift[row] = max;
    rows.sum[row] = sum;
    rows.target[row] = static_cast<float>(logits[rows.view.targets[r]]) - max;
  }
}

/// One pass, as rows_gradient.
template <typename T>
void gradient(KernelRows<T>& rows) {
  const std::int64_t vocab = rows.view.shard.width;
  for (std::int64_t r = 0; r < kBenchmarkRows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const T* logits = rows.logits.data() + r * vocab;
    T* gradient = rows.gradient.data() + r * vocab;
    const float grad = rows.grad[row];
    const float shift = rows.shift[row];
    const float sum = rows.sum[row];
    for (std::int64_t v = 0; v < vocab; ++v) {
      const float one = v == rows.view.targets[r] ? 1.0f : 0.0f;
      gradient[v] = T(grad * (one - std::exp(static_cast<float>(logits[v]) - shift) / sum));
    }
  }
}

/// Three passes, as rows_forward_backward.
template <typename T>
void sweep(KernelRows<T>& rows) {
  statistics(rows);
  gradient(rows);
}

inline void exponentials(const float* x, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = std::exp(x[i]);
}

}  // namespace lossgrid::plain
