// SPDX-License-Identifier: Apache-2.0
// Kernels over plain arrays (cuda_kernels.h).
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/device_launcher.cuh"
#include "harness/device/kernel/vectors.h"

namespace lossgrid {
namespace {

/// Kernel that calls f(k) for every k < count, in a grid-stride loop.
template <typename F>
struct ForEachElement {
  std::int64_t count;
  F f;

  __device__ void operator()(DeviceBlock& block) const {
    block.run([&](int thread) {
      const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
      for (std::int64_t k = block.index() * kBlockThreads + thread; k < count; k += stride) f(k);
    });
  }
};

template <typename F>
const char* for_each_element(std::int64_t count, void* stream, const F& f) {
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t needed = (count + kBlockThreads - 1) / kBlockThreads;
  DeviceLauncher launch(stream);
  launch(ForEachElement<F>{count, f}, needed < kMostBlocks ? needed : kMostBlocks, 0);
  return launch.error();
}

/// Adds four elements at once where both arrays are aligned for that, as whole tensors are.
struct Add {
  const float* values;
  float* sum;
  std::int64_t count;
  __device__ void operator()(std::int64_t k) const {
    const std::int64_t begin = k * kVectorSize<float>;
    if (is_aligned(values) && is_aligned(sum) && begin + kVectorSize<float> <= count) {
      Vector<float> all = vector_of(sum, true, k);
      const Vector<float> more = vector_of(values, true, k);
      for (int i = 0; i < kVectorSize<float>; ++i) all.items[i] += more.items[i];
      return set_vector(sum, true, k, all);
    }
    for (std::int64_t i = begin; i < count && i < begin + kVectorSize<float>; ++i) {
      sum[i] += values[i];
    }
  }
};

/// The maximum or minimum over rows: the first of equal values, NaN if there is one.
template <typename T>
struct Extrema {
  const T* rows;
  int ranks;
  std::int64_t stride;
  bool largest;
  T* out;
  __device__ void operator()(std::int64_t k) const {
    T found = rows[k];
    for (int r = 1; r < ranks; ++r) {
      const T next = rows[r * stride + k];
      const bool further = largest ? next > found : next < found;
      if (found == found && (further || next != next)) found = next;
    }
    out[k] = found;
  }
};

/// Writes two bytes an element, one for the last if `bytes` is odd. `to` has any alignment.
struct Fill {
  unsigned char* to;
  std::uint16_t pattern;
  std::int64_t bytes;
  __device__ void operator()(std::int64_t k) const {
    const bool aligned = reinterpret_cast<std::uintptr_t>(to) % sizeof(pattern) == 0;
    if (aligned && 2 * k + 1 < bytes) {
      reinterpret_cast<std::uint16_t*>(to)[k] = pattern;
      return;
    }
    to[2 * k] = static_cast<unsigned char>(pattern & 0xFF);
    if (2 * k + 1 < bytes) to[2 * k + 1] = static_cast<unsigned char>(pattern >> 8);
  }
};

}  // namespace

const char* cuda_add(const float* values, std::int64_t count, float* sum, void* stream) {
  const std::int64_t vectors = (count + kVectorSize<float> - 1) / kVectorSize<float>;
  return for_each_element(vectors, stream, Add{values, sum, count});
}

const char* cuda_extrema(DType dtype, const void* rows, int ranks, std::int64_t stride,
                         std::int64_t count, bool largest, void* out, void* stream) {
  if (dtype == DType::f64) {
    return for_each_element(count, stream,
                            Extrema<double>{static_cast<const double*>(rows), ranks, stride,
                                            largest, static_cast<double*>(out)});
  }
  return for_each_element(count, stream,
                          Extrema<float>{static_cast<const float*>(rows), ranks, stride, largest,
                                         static_cast<float*>(out)});
}

const char* cuda_fill(void* to, std::uint16_t pattern, std::int64_t bytes, void* stream) {
  return for_each_element((bytes + 1) / 2, stream,
                          Fill{static_cast<unsigned char*>(to), pattern, bytes});
}

}  // namespace lossgrid
