// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/cuda_devices.h"

#include <cuda_runtime.h>

#include "harness/core/text.h"
#include "harness/device/cuda/cuda_call.h"
#include "harness/device/cuda/cuda_kernels.h"

namespace lossgrid {
namespace {

/// "13.0" of 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// What makes a device useless to this build; empty for one that it can use.
std::string why_unusable(const cudaDeviceProp& properties, int device) {
  int shares_memory = 0;
  const cudaError_t asked =
      cudaDeviceGetAttribute(&shares_memory, cudaDevAttrConcurrentManagedAccess, device);
  if (asked != cudaSuccess) return cudaGetErrorString(asked);
  if (properties.major < 8) {
    return fmt::format("{} is sm_{}{}, older than sm_80", properties.name, properties.major,
                       properties.minor);
  }
  // Ranks that are threads read their tables while kernels of other ranks run.
  if (shares_memory == 0) {
    return fmt::format("{} does not let host and kernels use managed memory at once",
                       properties.name);
  }
  return "";
}

CudaDevices find_devices() {
  CudaDevices found;
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    cudaGetLastError();  // it is not sticky; nobody else should see it
    found.why_none = counted == cudaSuccess ? "no GPU" : cudaGetErrorString(counted);
    return found;
  }
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    found.why_none = why_unusable(properties, device);
    if (!found.why_none.empty()) return found;
    found.descriptions.push_back(fmt::format(
        "{}, sm_{}{}, {} SMs, {}, driver {}", properties.name, properties.major, properties.minor,
        properties.multiProcessorCount,
        format_bytes(static_cast<std::int64_t>(properties.totalGlobalMem)), version_text(driver)));
  }
  return found;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int device) : device_(device) {
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");  // of this thread, which is the rank's
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~CudaDevice() override { cudaStreamDestroy(stream_); }

  std::string_view name() const override { return "cuda"; }
  Backend backend() const override { return Backend::cuda; }
  void* stream() const override { return stream_; }
  const KernelTable& kernels() const override { return cuda_kernels(); }

 private:
  std::byte* acquire(std::size_t bytes) override {
    void* block = nullptr;
    const cudaError_t got = cudaMallocManaged(&block, bytes);
    if (got == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(ErrorCode::not_enough_memory, fmt::format("cannot allocate {} bytes", bytes));
    }
    check_cuda(got, "cudaMallocManaged");
    place(block, bytes);
    return static_cast<std::byte*>(block);
  }

  /// Tensors belong on the GPU. What is known by token stays with the host, which works on it
  /// between kernels, and kernels reach it where it is.
  void place(void* block, std::size_t bytes) const {
    constexpr std::size_t kLeastTensorBytes = std::size_t{1} << 20;
    const bool tensor = bytes >= kLeastTensorBytes;
    advise(block, bytes, cudaMemAdviseSetPreferredLocation, tensor);
    if (!tensor) advise(block, bytes, cudaMemAdviseSetAccessedBy, true);
  }

  void advise(void* block, std::size_t bytes, cudaMemoryAdvise advice, bool on_gpu) const {
#if CUDART_VERSION >= 13000
    const cudaMemLocation location{on_gpu ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost,
                                   on_gpu ? device_ : 0};
#else
    const int location = on_gpu ? device_ : cudaCpuDeviceId;
#endif
    check_cuda(cudaMemAdvise(block, bytes, advice, location), "cudaMemAdvise");
  }

  void release(std::byte* block) noexcept override {
    cudaFree(block);
  }

  int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

const CudaDevices& cuda_devices() {
  static const CudaDevices found = find_devices();
  return found;
}

std::unique_ptr<Device> make_cuda_device(int rank) {
  const auto count = static_cast<int>(cuda_devices().descriptions.size());
  return std::make_unique<CudaDevice>(rank % count);
}

std::int64_t free_cuda_bytes() {
  if (!cuda_devices().why_none.empty()) return 0;
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

}  // namespace lossgrid
