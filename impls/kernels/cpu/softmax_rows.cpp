// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cpu/softmax_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lossgrid {
namespace {

// float64 logits keep their precision up to the subtraction of the maximum.
template <typename T>
auto load(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<float>(x);
  }
}

template <typename T>
float exp_shifted(T x, float max) {
  return std::exp(static_cast<float>(load(x) - max));
}

/// Calls f(r, row pointer of the element type) for every row.
template <typename F>
void for_each_row(const LogitsRows& rows, F&& f) {
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = static_cast<const T*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r) f(r, data + r * rows.shard.width);
  });
}

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBlock = 128;  // 8 adds a lane, then a tree of 4; blocks add up in double
static_assert(kBlock / kLanes + 4 == kSumExpSerialAdds);

template <typename T>
float block_sum_exp(const T* x, float max) {
  std::array<float, kLanes> lanes{};
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += exp_shifted(x[i + k], max);
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

}  // namespace

LogitsRows LogitsRows::slice(std::int64_t begin, std::int64_t count) const {
  const auto offset = static_cast<std::size_t>(begin * shard.width) * size_of(dtype);
  return {dtype,        static_cast<const std::byte*>(data) + offset, count, shard, targets + begin,
          valid + begin};
}

void rows_max(const LogitsRows& rows, float* max) {
  const std::int64_t columns = rows.shard.valid();
  for_each_row(rows, [&](std::int64_t r, const auto* x) {
    if (rows.targets[r] < 0) {
      max[r] = 0;
      return;
    }
    auto largest = -std::numeric_limits<decltype(load(*x))>::infinity();
    for (std::int64_t v = 0; v < columns; ++v) largest = std::max(largest, load(x[v]));
    max[r] = static_cast<float>(largest);
  });
}

void rows_sum_exp(const LogitsRows& rows, const float* max, float* sum) {
  const std::int64_t columns = rows.shard.valid();
  for_each_row(rows, [&](std::int64_t r, const auto* x) {
    if (rows.targets[r] < 0) {
      sum[r] = 1;
      return;
    }
    double total = 0;
    std::int64_t v = 0;
    for (; v + kBlock <= columns; v += kBlock) total += block_sum_exp(x + v, max[r]);
    for (; v < columns; ++v) total += exp_shifted(x[v], max[r]);
    sum[r] = static_cast<float>(total);
  });
}

std::int64_t rows_target(const LogitsRows& rows, const float* max, float* out) {
  std::int64_t owned = 0;
  for_each_row(rows, [&](std::int64_t r, const auto* x) {
    const std::int32_t target = rows.targets[r];
    const bool owns = rows.shard.owns(target);
    out[r] = owns ? static_cast<float>(load(x[target - rows.shard.begin]) - max[r]) : 0.0f;
    if (owns && rows.valid[r] != 0) ++owned;
  });
  return owned;
}

void rows_gradient(const LogitsRows& rows, const float* max, const float* sum, const float* grad,
                   void* out) {
  const std::int64_t columns = rows.shard.valid();
  for_each_row(rows, [&](std::int64_t r, const auto* x) {
    using T = std::remove_cvref_t<decltype(*x)>;
    T* row = static_cast<T*>(out) + r * rows.shard.width;
    if (grad[r] == 0) {
      std::fill_n(row, rows.shard.width, T(0));
      return;
    }
    const float scale = 1.0f / sum[r];
    for (std::int64_t v = 0; v < columns; ++v) {
      row[v] = static_cast<T>(-grad[r] * (exp_shifted(x[v], max[r]) * scale));
    }
    const std::int32_t target = rows.targets[r];
    if (rows.shard.owns(target)) {
      const std::int64_t v = target - rows.shard.begin;
      row[v] = static_cast<T>(grad[r] * (1.0f - exp_shifted(x[v], max[r]) * scale));
    }
    std::fill(row + columns, row + rows.shard.width, T(0));
  });
}

}  // namespace lossgrid
