// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cpu/hidden_rows.h"

#include <algorithm>
#include <cstring>

namespace lossgrid {

void cpu_gather_rows(const GatheredRows& gathered) {
  const auto size = static_cast<std::size_t>(gathered.size);
  const std::size_t from_bytes = size * size_of(gathered.from_dtype);
  const std::size_t to_bytes = size * size_of(gathered.to_dtype);
  for (std::int64_t k = 0; k < gathered.rows; ++k) {
    std::byte* to = static_cast<std::byte*>(gathered.to) + static_cast<std::size_t>(k) * to_bytes;
    if (gathered.source[k] < 0) {
      std::memset(to, 0, to_bytes);
      continue;
    }
    const std::byte* from = static_cast<const std::byte*>(gathered.from) +
                            static_cast<std::size_t>(gathered.source[k]) * from_bytes;
    if (gathered.from_dtype == gathered.to_dtype) {
      std::memcpy(to, from, to_bytes);
    } else {
      const auto* narrow = reinterpret_cast<const bf16*>(from);
      auto* wide = reinterpret_cast<float*>(to);
      for (std::size_t i = 0; i < size; ++i) wide[i] = static_cast<float>(narrow[i]);
    }
  }
}

void cpu_clear_rows(DType dtype, void* data, const std::uint8_t* keep, std::int64_t rows,
                    std::int64_t size) {
  const std::size_t bytes = static_cast<std::size_t>(size) * size_of(dtype);
  for (std::int64_t k = 0; k < rows; ++k) {
    if (keep[k] != 0) continue;
    std::memset(static_cast<std::byte*>(data) + static_cast<std::size_t>(k) * bytes, 0, bytes);
  }
}

void cpu_round_rows(float* data, std::int64_t rows, std::int64_t size) {
  for (std::int64_t k = 0; k < rows; ++k) {
    auto* row = reinterpret_cast<std::byte*>(data + k * size);
    for (std::int64_t i = 0; i < size; ++i) {
      float value = 0;
      std::memcpy(&value, row + i * 4, sizeof(value));
      const bf16 rounded(value);
      std::memcpy(row + i * 2, &rounded, sizeof(rounded));
    }
  }
}

void cpu_write_floats(const float* from, DType to_dtype, void* to, std::int64_t count) {
  if (to_dtype == DType::bf16) {
    std::transform(from, from + count, static_cast<bf16*>(to), [](float x) { return bf16(x); });
  } else {
    std::copy_n(from, count, static_cast<float*>(to));
  }
}

}  // namespace lossgrid
