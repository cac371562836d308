// SPDX-License-Identifier: Apache-2.0
// Launches of array_kernels.h (cuda_kernels.h).
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/device_launcher.cuh"
#include "harness/device/kernel/array_kernels.h"

namespace lossgrid {
namespace {

template <typename F>
const char* run(std::int64_t count, void* stream, const F& f) {
  DeviceLauncher launch(stream);
  for_each_element(launch, count, f);
  return launch.error();
}

}  // namespace

const char* cuda_add(const float* values, std::int64_t count, float* sum, void* stream) {
  const AddArray add{values, sum, count};
  return run(add.steps(), stream, add);
}

const char* cuda_extrema(DType dtype, const void* rows, int ranks, std::int64_t stride,
                         std::int64_t count, bool largest, void* out, void* stream) {
  if (dtype == DType::f64) {
    return run(count, stream,
               ExtremaOfRows<double>{static_cast<const double*>(rows), ranks, stride, largest,
                                     static_cast<double*>(out)});
  }
  return run(count, stream,
             ExtremaOfRows<float>{static_cast<const float*>(rows), ranks, stride, largest,
                                  static_cast<float*>(out)});
}

const char* cuda_fill(void* to, std::uint16_t pattern, std::int64_t bytes, void* stream) {
  const FillBytes fill(to, pattern, bytes);
  return run(fill.steps(), stream, fill);
}

}  // namespace lossgrid
