// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/cuda_devices.h"

#include <utility>

#include <cuda_runtime.h>

#include "harness/core/process/heap_watch.h"
#include "harness/core/text.h"
#include "harness/device/cuda/cuda_call.h"
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/cuda_timing.h"
#include "harness/device/device_work.h"
#include "harness/device/memory/host_memory.h"

namespace lossgrid {
namespace {

/// Returns "13.0" for 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Returns the reason for which this build cannot use a device.
std::optional<SkipReason> unusable(const cudaDeviceProp& properties, int device) {
  int has_pools = 0;
  const cudaError_t asked =
      cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device);
  if (asked != cudaSuccess) return SkipReason{cudaGetErrorString(asked)};
  if (properties.major < 8) {
    return SkipReason{fmt::format("{} is sm_{}{}, older than sm_80", properties.name,
                                  properties.major, properties.minor)};
  }
  if (has_pools == 0) {
    return SkipReason{fmt::format("{} has no memory pools", properties.name)};
  }
  return std::nullopt;
}

CudaDevices find_devices() {
  CudaDevices found;
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    cudaGetLastError();  // the status is not sticky; no other call should see it
    found.no_gpu = SkipReason{counted == cudaSuccess ? "no GPU" : cudaGetErrorString(counted)};
    return found;
  }
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  found.all_are_sm_90 = true;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    found.no_gpu = unusable(properties, device);
    if (found.no_gpu) return found;
    if (properties.major != 9 || properties.minor != 0) found.all_are_sm_90 = false;
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
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");  // sets the device of the rank's thread
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check_cuda(cudaDeviceGetDefaultMemPool(&pool_, device_), "cudaDeviceGetDefaultMemPool");
    keep_freed_memory();
    give_access_to_peers();
    before_ = memory_now();
  }
  ~CudaDevice() override {
    if (!cuda_is_lost()) cudaStreamDestroy(stream_);
  }

  std::string_view name() const override { return "cuda"; }
  Backend backend() const override { return Backend::cuda; }
  void* stream() const override { return stream_; }
  const KernelTable& kernels() const override { return cuda_kernels(); }

  /// The driver stages host memory that is not pinned. Only views of the host copy this way, for
  /// checks outside of timings; payloads of collectives are already in pinned memory (Staging).
  void copy(void* to, const void* from, std::size_t bytes) override {
    const HeapWatchScope unwatched(nullptr);  // the driver's own
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
    wait_for("copy");
  }

  bool host_reads(const void* memory) const override {
    if (memory == nullptr) return true;       // empty span; CUDA's answer varies by version
    const HeapWatchScope unwatched(nullptr);  // the driver's own
    cudaPointerAttributes found{};
    check_cuda(cudaPointerGetAttributes(&found, memory), "cudaPointerGetAttributes");
    return found.type != cudaMemoryTypeDevice;
  }

  void fill(void* to, std::uint16_t pattern, std::size_t bytes, MemorySpace space) override {
    const HeapWatchScope unwatched(nullptr);  // the driver's own
    if (space == MemorySpace::shared) {
      wait_for("fill");
      return fill_on_host(to, pattern, bytes);
    }
    forget_timed_end();
    const char* error = cuda_fill(to, pattern, static_cast<std::int64_t>(bytes), stream_);
    if (error != nullptr) throw_cuda_failure("CUDA kernel fill", error);
  }

  std::optional<DriverMemory> driver_memory() override {
    const DriverMemory now = memory_now();
    return DriverMemory{now.used_bytes - before_.used_bytes, now.pool_bytes - before_.pool_bytes};
  }

  void lose() override {
    count_launch();
    const char* error = cuda_trap(stream_);
    if (error != nullptr) throw_cuda_failure("CUDA kernel trap", error);
  }

 private:
  /// Keeps freed memory in the pool, so that the next buffer costs no call of the driver.
  void keep_freed_memory() const {
    std::uint64_t everything = ~std::uint64_t{0};
    check_cuda(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &everything),
               "cudaMemPoolSetAttribute");
  }

  /// Lets the other GPUs read the pool, which is not the default: NCCL before 2.24.3 reads buffers
  /// of ranks in the same process directly and does not check the access (NCCL_P2P_DIRECT_DISABLE).
  void give_access_to_peers() const {
    const auto count = static_cast<int>(cuda_devices().descriptions.size());
    for (int other = 0; other < count; ++other) {
      int can_access = 0;
      if (other != device_) {
        check_cuda(cudaDeviceCanAccessPeer(&can_access, other, device_), "cudaDeviceCanAccessPeer");
      }
      if (can_access == 0) continue;
      cudaMemAccessDesc access{};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = other;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      check_cuda(cudaMemPoolSetAccess(pool_, &access, 1), "cudaMemPoolSetAccess");
    }
  }

  DriverMemory memory_now() const {
    std::size_t free = 0;
    std::size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    std::uint64_t reserved = 0;
    check_cuda(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved),
               "cudaMemPoolGetAttribute");
    return {static_cast<std::int64_t>(total - free), static_cast<std::int64_t>(reserved)};
  }

  void wait() override { wait_for("what was launched"); }
  void wait_for(const char* what) {
    const HeapWatchScope unwatched(nullptr);  // the driver's own
    record_timed_end(stream_);
    check_cuda(cudaStreamSynchronize(stream_), what);
  }

  std::byte* acquire(std::size_t bytes, MemorySpace space) override {
    void* block = nullptr;
    const bool tensor = space == MemorySpace::device;
    const cudaError_t got =
        tensor ? cudaMallocAsync(&block, bytes, stream_)
               : cudaHostAlloc(&block, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (got == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // else the next launch reports this status
      throw Error(ErrorCode::not_enough_memory, fmt::format("cannot allocate {} bytes", bytes));
    }
    check_cuda(got, tensor ? "cudaMallocAsync" : "cudaHostAlloc");
    return static_cast<std::byte*>(block);
  }

  /// Frees in stream order, because launched kernels may still use the block.
  void release(std::byte* block, MemorySpace space) noexcept override {
    const HeapWatchScope unwatched(nullptr);  // the driver's own
    if (cuda_is_lost()) return;               // the ending process returns all memory
    if (space == MemorySpace::device) {
      cudaFreeAsync(block, stream_);
    } else {
      cudaStreamSynchronize(stream_);
      cudaFreeHost(block);
    }
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  DriverMemory before_;
};

/// Returns the unused bytes of the current GPU's pool, which this process can still allocate
/// although the driver counts them as used.
std::int64_t idle_pool_bytes() {
  int device = 0;
  cudaMemPool_t pool = nullptr;
  std::uint64_t held = 0;
  std::uint64_t used = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  for (const auto& [which, bytes] : {std::pair(cudaMemPoolAttrReservedMemCurrent, &held),
                                     std::pair(cudaMemPoolAttrUsedMemCurrent, &used)}) {
    check_cuda(cudaMemPoolGetAttribute(pool, which, bytes), "cudaMemPoolGetAttribute");
  }
  return static_cast<std::int64_t>(held - used);
}

}  // namespace

const CudaDevices& cuda_devices() {
  static const CudaDevices found = find_devices();
  return found;
}

std::unique_ptr<Device> make_cuda_device(int rank) {
  const auto count = static_cast<int>(cuda_devices().descriptions.size());
  return std::make_unique<CudaDevice>(rank % count);
}

const KernelTable& cuda_device_kernels() {
  return cuda_kernels();
}

void throw_cuda_failure(const char* call, const char* error) {
  // After a sticky error every call returns it.
  check_cuda(cudaDeviceSynchronize(), call);
  throw Error(ErrorCode::internal, fmt::format("{}: {}", call, error));
}

std::int64_t free_cuda_bytes() {
  if (cuda_devices().no_gpu) return 0;
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free) + idle_pool_bytes();
}

}  // namespace lossgrid
