// SPDX-License-Identifier: Apache-2.0
// Kernel code that runs on GPUs and on the processor. nvcc compiles it for the device only, the C++
// compiler for the host only; LOSSGRID_KERNEL stands for the attributes of both.
//
// A kernel is a callable of a block of threads, kernel(Block&). It states the work of each thread
// and the points where values of threads are reduced; other threads see writes to shared memory
// after the next reduce() or sync(). DeviceBlock (device_block.cuh) is a block on a GPU, HostBlock
// (host_block.h) runs its threads in a loop. Launches: launch.h.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"
#include "harness/device/kernel/block_sums.h"

// LOSSGRID_FEW_TURNS precedes a loop of few turns, whose unrolling would only lengthen the code.
#ifdef __CUDACC__
#define LOSSGRID_KERNEL __device__ __forceinline__
#define LOSSGRID_FEW_TURNS _Pragma("unroll 1")
#else
#include <cmath>
#define LOSSGRID_KERNEL inline
#define LOSSGRID_FEW_TURNS
#endif

namespace lossgrid {

/// Returns 2^x; 0 if 2^x is not a normal number. On a GPU within 2 ulp (ex2.approx.ftz).
LOSSGRID_KERNEL float exp2_or_zero(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x < -126.0f ? 0.0f : std::exp2(x);
#endif
}

/// Returns e^x of a distance x to the shift of a row.
LOSSGRID_KERNEL float exp_of(float x) {
  constexpr float kLog2OfE = 1.44269504f;
  return exp2_or_zero(x * kLog2OfE);
}

/// Rounds to float32; finite numbers beyond the largest float32 become that number.
LOSSGRID_KERNEL float to_float(double x) {
  constexpr double kLargest = 3.4028234663852886e38;
  const bool is_finite = x - x == 0;
  if (is_finite && x > kLargest) return static_cast<float>(kLargest);
  if (is_finite && x < -kLargest) return -static_cast<float>(kLargest);
  return static_cast<float>(x);
}
LOSSGRID_KERNEL float to_float(float x) {
  return x;
}
LOSSGRID_KERNEL float to_float(bf16 x) {
#ifdef __CUDACC__
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
#else
  return static_cast<float>(x);
#endif
}

/// Returns x - shift in float64. A shift is a logit rounded to float32. Up to 2^28 the rounding is
/// off by at most 8, and exponentials of exact distances stay far from overflow. Beyond, float32
/// may not hold the shift to within a hundred, and exp(x - shift) overflows or vanishes for the
/// largest logits themselves: there x is rounded to float32 too, as if logits had come in float32.
LOSSGRID_KERNEL double exact_distance_to_shift(double x, float shift) {
  constexpr float kLargestExactShift = 0x1p28f;
  const bool is_exact = shift <= kLargestExactShift && shift >= -kLargestExactShift;
  return (is_exact ? x : static_cast<double>(to_float(x))) - static_cast<double>(shift);
}

/// Returns x - shift in the precision of x, then rounded.
LOSSGRID_KERNEL float distance_to_shift(double x, float shift) {
  return static_cast<float>(exact_distance_to_shift(x, shift));
}
LOSSGRID_KERNEL float distance_to_shift(float x, float shift) {
  return x - shift;
}
LOSSGRID_KERNEL float distance_to_shift(bf16 x, float shift) {
  return to_float(x) - shift;
}

/// Stores x, rounded to nearest even, as an element of a tensor.
LOSSGRID_KERNEL void store(float x, double& to) {
  to = static_cast<double>(x);
}
LOSSGRID_KERNEL void store(float x, float& to) {
  to = x;
}
LOSSGRID_KERNEL void store(float x, bf16& to) {
#ifdef __CUDACC__
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  to.bits = bits;
#else
  to = bf16(x);
#endif
}

/// Returns the larger number; NaN if either number is NaN.
LOSSGRID_KERNEL float larger(float a, float b) {
#ifdef __CUDACC__
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a > b || a != a ? a : b;
#endif
}
/// Returns the smaller number; the other number if one is NaN.
LOSSGRID_KERNEL float smaller(float a, float b) {
#ifdef __CUDACC__
  float y;
  asm("min.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a < b || b != b ? a : b;
#endif
}
/// Raises `to` to `value`; a NaN stays.
LOSSGRID_KERNEL void raise_to(double& to, double value) {
  if (value > to || value != value) to = value;
}
LOSSGRID_KERNEL float infinity() {
#ifdef __CUDACC__
  return __int_as_float(0x7f800000);
#else
  return static_cast<float>(HUGE_VAL);
#endif
}

}  // namespace lossgrid
