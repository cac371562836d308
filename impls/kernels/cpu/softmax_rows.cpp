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

float tree_sum(std::array<float, kLanes>& lanes) {
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

template <typename T>
float block_sum_exp(const T* x, float max) {
  std::array<float, kLanes> lanes{};
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += exp_shifted(x[i + k], max);
  }
  return tree_sum(lanes);
}

/// exp(d) and exp(d) d for d = x - max; 0 and 0 where exp underflows, also for -inf.
template <typename T>
std::array<float, 2> exp_and_weighted(T x, float max) {
  const auto d = static_cast<float>(load(x) - max);
  const float e = std::exp(d);
  return {e, e > 0 ? e * d : 0.0f};
}

template <typename T>
std::array<float, 2> block_weighted(const T* x, float max) {
  std::array<float, kLanes> sums{};
  std::array<float, kLanes> weighted{};
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) {
      const auto [e, w] = exp_and_weighted(x[i + k], max);
      sums[k] += e;
      weighted[k] += w;
    }
  }
  return {tree_sum(sums), tree_sum(weighted)};
}

}  // namespace

LogitsRows LogitsRows::slice(std::int64_t begin, std::int64_t count) const {
  const auto offset = static_cast<std::size_t>(begin * shard.width) * size_of(dtype);
  return {dtype,        static_cast<const std::byte*>(data) + offset, count, shard, targets + begin,
          valid + begin};
}

void rows_max(const LogitsRows& rows, float* max, float* min) {
  const std::int64_t columns = rows.shard.valid();
  for_each_row(rows, [&](std::int64_t r, const auto* x) {
    max[r] = 0;
    if (min != nullptr) min[r] = 0;
    if (rows.targets[r] < 0) return;
    constexpr auto kInfinity = std::numeric_limits<decltype(load(*x))>::infinity();
    auto largest = -kInfinity;
    for (std::int64_t v = 0; v < columns; ++v) largest = std::max(largest, load(x[v]));
    max[r] = static_cast<float>(largest);
    if (min == nullptr) return;
    auto smallest = kInfinity;
    for (std::int64_t v = 0; v < columns; ++v) {
      if (load(x[v]) > -kInfinity) smallest = std::min(smallest, load(x[v]));
    }
    min[r] = static_cast<float>(smallest);
  });
}

void rows_sum_exp(const LogitsRows& rows, const float* max, float* sum, float* weighted) {
  const std::int64_t columns = rows.shard.valid();
  for_each_row(rows, [&](std::int64_t r, const auto* x) {
    sum[r] = 1;
    if (weighted != nullptr) weighted[r] = 0;
    if (rows.targets[r] < 0) return;
    double total = 0;
    double total_weighted = 0;
    std::int64_t v = 0;
    if (weighted == nullptr) {
      for (; v + kBlock <= columns; v += kBlock) total += block_sum_exp(x + v, max[r]);
      for (; v < columns; ++v) total += exp_shifted(x[v], max[r]);
    } else {
      const auto add = [&](const std::array<float, 2>& terms) {
        total += terms[0];
        total_weighted += terms[1];
      };
      for (; v + kBlock <= columns; v += kBlock) add(block_weighted(x + v, max[r]));
      for (; v < columns; ++v) add(exp_and_weighted(x[v], max[r]));
      weighted[r] = static_cast<float>(total_weighted);
    }
    sum[r] = static_cast<float>(total);
  });
}

void rows_entropy(std::span<const float> sum, std::span<const float> weighted,
                  std::span<float> entropy) {
  for (std::size_t r = 0; r < sum.size(); ++r) {
    entropy[r] = std::log(sum[r]) - weighted[r] / sum[r];
  }
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
    const std::int32_t target = rows.targets[r];
    const std::int64_t at = rows.shard.owns(target) ? target - rows.shard.begin : -1;
    const float target_probability = at < 0 ? 0.0f : exp_shifted(x[at], max[r]) * scale;
    for (std::int64_t v = 0; v < columns; ++v) {
      row[v] = static_cast<T>(-grad[r] * (exp_shifted(x[v], max[r]) * scale));
    }
    if (at >= 0) row[at] = static_cast<T>(grad[r] * (1.0f - target_probability));
    std::fill(row + columns, row + rows.shard.width, T(0));
  });
}

}  // namespace lossgrid
