// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <new>

#include "harness/core/error.h"
#include "harness/device/backend.h"
#include "harness/device/device_work.h"
#include "harness/device/gemm.h"

namespace lossgrid {
namespace {

constexpr std::align_val_t kAlignment{64};

void counted_gemm(const Gemm& product, std::span<float> workspace) {
  count_launch_and_wait();
  cpu_kernels().gemm(product, workspace);
}

void counted_add(const float* values, std::int64_t count, float* sum, void* stream) {
  count_launch_and_wait();
  cpu_kernels().add(values, count, sum, stream);
}

/// Those of the processor, counted as a GPU's.
const KernelTable& emulated_kernels() {
  static const KernelTable kernels{counted_gemm, cpu_kernels().gemm_workspace_floats, counted_add};
  return kernels;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(Backend backend) : backend_(backend) {}

  std::string_view name() const override { return lossgrid::name(backend_); }
  Backend backend() const override { return backend_; }
  const KernelTable& kernels() const override {
    return backend_ == Backend::cpu ? cpu_kernels() : emulated_kernels();
  }

 private:
  std::byte* acquire(std::size_t bytes) override {
    void* block = ::operator new(bytes, kAlignment, std::nothrow);
    if (block == nullptr) {
      throw Error(ErrorCode::not_enough_memory, fmt::format("cannot allocate {} bytes", bytes));
    }
    return static_cast<std::byte*>(block);
  }

  void release(std::byte* block) noexcept override { ::operator delete(block, kAlignment); }

  Backend backend_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() {
  return std::make_unique<CpuDevice>(Backend::cpu);
}

std::unique_ptr<Device> make_emulated_device() {
  return std::make_unique<CpuDevice>(Backend::cuda_emulated);
}

}  // namespace lossgrid
