// SPDX-License-Identifier: Apache-2.0
// Plain loops, which the compiler vectorises for every instruction set (Google Highway chooses at
// run time).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/problem/values/exact_dots.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/highway.h>

#include "harness/problem/values/exact_dots.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kLanes = 8;

double sum_of(const double* sums) {
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

double dot(const float* x, const float* w, std::int64_t size) {
  double sums[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(x[k + lane]) * static_cast<double>(w[k + lane]);
    }
  }
  for (std::int64_t lane = 0; k < size; ++k, ++lane) {
    sums[lane] += static_cast<double>(x[k]) * static_cast<double>(w[k]);
  }
  return sum_of(sums);
}

void dots(const double* x, const float* w, std::int64_t size, double* out, std::int64_t stride) {
  double sums[kDotsAtOnce][kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    double wide[kLanes];
    for (std::int64_t lane = 0; lane < kLanes; ++lane) wide[lane] = w[k + lane];
    for (std::int64_t r = 0; r < kDotsAtOnce; ++r) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        sums[r][lane] += x[r * size + k + lane] * wide[lane];
      }
    }
  }
  for (std::int64_t r = 0; r < kDotsAtOnce; ++r) {
    for (std::int64_t lane = 0; lane < size - k; ++lane) {
      sums[r][lane] += x[r * size + k + lane] * static_cast<double>(w[k + lane]);
    }
    out[r * stride] = sum_of(sums[r]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(dot);
HWY_EXPORT(dots);

double exact_dot(const float* x, const float* w, std::int64_t size) {
  return HWY_DYNAMIC_DISPATCH(dot)(x, w, size);
}

void exact_dots(const double* x, const float* w, std::int64_t size, double* out,
                std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(dots)(x, w, size, out, stride);
}

}  // namespace lossgrid
#endif
