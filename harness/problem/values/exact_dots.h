// SPDX-License-Identifier: Apache-2.0
// Dot products of float32 numbers in float64, which holds each product exactly: fused or not, and
// on every instruction set, they have the same bits.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Returns the sum of x[k] w[k]. Eight sums side by side: compilers vectorise them, which they may
/// not do with one sum in order.
double exact_dot(const float* x, const float* w, std::int64_t size);

/// Rows that are multiplied together: a vector that is larger than the caches is read once for all.
inline constexpr std::int64_t kDotsAtOnce = 8;

/// Writes the sums of x[r][k] w[k] of kDotsAtOnce rows to out, `stride` apart, each with the
/// additions of exact_dot(). x [kDotsAtOnce, size] holds float32 numbers.
void exact_dots(const double* x, const float* w, std::int64_t size, double* out,
                std::int64_t stride);

}  // namespace lossgrid
