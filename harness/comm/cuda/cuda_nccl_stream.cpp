// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/cuda/cuda_nccl_stream.h"

#include <cuda_runtime.h>

#include "harness/device/cuda/cuda_call.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/cuda_timing.h"
#include "harness/device/device_work.h"

namespace lossgrid {
namespace {

class CudaNcclStream final : public NcclStream {
 public:
  using NcclStream::NcclStream;

  bool idle() override {
    const cudaError_t state = cudaStreamQuery(static_cast<cudaStream_t>(device().stream()));
    if (state == cudaErrorNotReady) return false;
    check_cuda(state, "what was launched");
    device().synchronise();  // for its bookkeeping: there is nothing to wait for
    return true;
  }

  bool reaches(const void* memory) const override {
    cudaPointerAttributes about{};
    check_cuda(cudaPointerGetAttributes(&about, memory), "cudaPointerGetAttributes");
    return about.type != cudaMemoryTypeUnregistered;
  }

  std::string gpu() const override { return "GPU-" + cuda_device_uuid(); }

  void reduce(const RankRows& rows, ReduceOp op, void* out) override {
    const bool largest = op == ReduceOp::max;
    const auto stride = static_cast<std::int64_t>(rows.stride);
    const auto count = static_cast<std::int64_t>(rows.count);
    const char* error = cuda_extrema(rows.dtype, rows.data, rows.ranks, stride, count, largest, out,
                                     device().stream());
    count_launch();
    if (error != nullptr) throw_cuda_failure("CUDA kernel extrema", error);
  }
};

}  // namespace

std::unique_ptr<NcclStream> make_cuda_nccl_stream(Device& device) {
  return std::make_unique<CudaNcclStream>(device);
}

}  // namespace lossgrid
