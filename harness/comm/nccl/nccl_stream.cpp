// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/nccl/nccl_stream.h"

#include <vector>

#include "harness/comm/cuda/cuda_nccl_stream.h"
#include "harness/comm/reduction.h"
#include "harness/core/error.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"

namespace lossgrid {
namespace {

/// Stream for an emulation of NCCL that launches on emulated streams and reads memory of the host.
class EmulatedNcclStream final : public NcclStream {
 public:
  using NcclStream::NcclStream;

  bool idle() override {
    device().synchronise();
    return true;
  }
  bool reaches(const void* /*memory*/) const override { return true; }
  std::string gpu() const override {
    return fmt::format("the emulated device at {}", static_cast<const void*>(&device()));
  }
  void reduce(const RankRows& rows, ReduceOp op, void* out) override {
    count_launch();
    static_cast<EmulatedStream*>(device().stream())->launch([=] {
      std::vector<const std::byte*> sources;
      for (int r = 0; r < rows.ranks; ++r) {
        sources.push_back(rows.data +
                          static_cast<std::size_t>(r) * rows.stride * size_of(rows.dtype));
      }
      reduce_in_order(sources, 0, rows.count, rows.dtype, op, out);
    });
  }
};

}  // namespace

std::unique_ptr<NcclStream> make_nccl_stream(Device& device) {
  switch (device.backend()) {
    case Backend::cuda:
      return make_cuda_nccl_stream(device);
    case Backend::cuda_emulated:
      return std::make_unique<EmulatedNcclStream>(device);
    default:
      throw Error(ErrorCode::unsupported, "NCCL moves memory of GPUs, not of backend cpu");
  }
}

}  // namespace lossgrid
