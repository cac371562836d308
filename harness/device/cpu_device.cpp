// SPDX-License-Identifier: Apache-2.0
#include "harness/device/backend.h"
#include "harness/device/device_work.h"
#include "harness/device/gemm.h"
#include "harness/device/memory/host_memory.h"

namespace lossgrid {
namespace {

void counted_gemm(const Gemm& product, std::span<float> workspace) {
  device_work().flops += product.flops();
  cpu_kernels().gemm(product, workspace);
}

/// Returns the kernels of the processor, which count the products of this thread.
const KernelTable& counting_kernels() {
  static const KernelTable kernels{counted_gemm, cpu_kernels().gemm_workspace_floats,
                                   cpu_kernels().add};
  return kernels;
}

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return lossgrid::name(backend()); }
  Backend backend() const override { return Backend::cpu; }
  const KernelTable& kernels() const override { return counting_kernels(); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    copy_on_host(to, from, bytes);
  }
  void fill(void* to, std::uint16_t pattern, std::size_t bytes, MemorySpace /*space*/) override {
    fill_on_host(to, pattern, bytes);
  }

 private:
  std::byte* acquire(std::size_t bytes, MemorySpace /*space*/) override {
    return acquire_on_host(bytes);
  }
  void release(std::byte* block, MemorySpace /*space*/) noexcept override {
    release_on_host(block);
  }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() {
  return std::make_unique<CpuDevice>();
}

}  // namespace lossgrid
