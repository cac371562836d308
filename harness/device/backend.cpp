// SPDX-License-Identifier: Apache-2.0
#include "harness/device/backend.h"

#include <algorithm>
#include <limits>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_timing.h"
#include "harness/device/emulated_device.h"
#include "harness/device/gemm.h"
#include "harness/device/processor_cache.h"

namespace lossgrid {
namespace {

const std::optional<SkipReason>& always_there() {
  static const std::optional<SkipReason> none;
  return none;
}

const std::optional<SkipReason>& no_gpu() {
  return cuda_devices().no_gpu;
}

const std::vector<std::string>& no_descriptions() {
  static const std::vector<std::string> none;
  return none;
}

constexpr std::int64_t kCpuChunkTokens = 256;
/// The product that adds a chunk of c rows to d weight reads and writes 8 H V bytes of float32 and
/// makes 2 c H V FLOPs. The traffic takes as long as the FLOPs at c = 4 peak / bandwidth: 820 rows
/// with the data sheet of an H200, 610 of an A100, 1180 of an H100. With 8192 rows the traffic
/// takes a seventh of the FLOPs' time or less. Not measured on a GPU yet.
constexpr std::int64_t kGpuChunkTokens = 8192;
/// 8192 rows of 163,840 ids.
constexpr std::int64_t kGpuChunkBytes = std::int64_t{5} << 30;
constexpr std::int64_t kAnyBytes = std::numeric_limits<std::int64_t>::max();

constexpr std::int64_t kHostWarmUpNs = 20'000'000;
/// An idle GPU runs at a fifth of its clock and takes most of a second to raise it.
constexpr std::int64_t kGpuWarmUpNs = 1'000'000'000;

constexpr std::int64_t kEmulatedCacheBytes = std::int64_t{1} << 20;

// GPUs do not document their replacement policy: a walk over four times the cache is safe.
constexpr int kCpuWalkPercent = 125;
constexpr int kGpuWalkPercent = 400;

constexpr BackendTraits kCpu{
    .name = "cpu",
    .tensor_device = "cpu",
    .is_gpu = false,
    .launches_kernels = false,
    .has_real_times = true,
    .no_device = always_there,
    .make_device = [](int /*rank*/) { return make_cpu_device(); },
    .descriptions = no_descriptions,
    .gpu_uuid = [] { return std::string(); },
    .free_gpu_bytes = [] { return std::int64_t{0}; },
    .timer = "steady_clock",
    .make_timer = make_steady_timer,
    .warm_up_ns = kHostWarmUpNs,
    .last_level_cache_bytes = processor_cache_bytes,
    .cache_walk_percent = kCpuWalkPercent,
    .kernels = cpu_kernels,
    .gemm_library = gemm_library,
    .has_bf16_choice = true,
    .default_chunk_tokens = kCpuChunkTokens,
    .default_chunk_bytes = kAnyBytes,
};

constexpr BackendTraits kCuda{
    .name = "cuda",
    .tensor_device = "cuda",
    .is_gpu = true,
    .launches_kernels = true,
    .has_real_times = true,
    .no_device = no_gpu,
    .make_device = make_cuda_device,
    .descriptions = []() -> const std::vector<std::string>& { return cuda_devices().descriptions; },
    .gpu_uuid = cuda_device_uuid,
    .free_gpu_bytes = free_cuda_bytes,
    .timer = "cuda_events",
    .make_timer = make_cuda_timer,
    .warm_up_ns = kGpuWarmUpNs,
    .last_level_cache_bytes = cuda_l2_bytes,
    .cache_walk_percent = kGpuWalkPercent,
    .kernels = cuda_device_kernels,
    .gemm_library = [] { return std::string("cuBLASLt"); },
    .has_bf16_choice = false,
    .default_chunk_tokens = kGpuChunkTokens,
    .default_chunk_bytes = kGpuChunkBytes,
};

constexpr BackendTraits kCudaEmulated{
    .name = "cuda_emulated",
    .tensor_device = "cpu",
    .is_gpu = false,
    .launches_kernels = true,
    .has_real_times = false,
    .no_device = always_there,
    .make_device = [](int /*rank*/) { return make_emulated_device(); },
    .descriptions = no_descriptions,
    .gpu_uuid = [] { return std::string(); },
    .free_gpu_bytes = [] { return std::int64_t{0}; },
    .timer = "steady_clock",
    .make_timer = make_steady_timer,
    .warm_up_ns = kHostWarmUpNs,
    .last_level_cache_bytes = [] { return kEmulatedCacheBytes; },
    .cache_walk_percent = kGpuWalkPercent,
    .kernels = cpu_kernels,
    .gemm_library = gemm_library,
    .has_bf16_choice = true,
    .default_chunk_tokens = kGpuChunkTokens,
    .default_chunk_bytes = kGpuChunkBytes,
};

}  // namespace

const BackendTraits& traits_of(Backend backend) {
  switch (backend) {
    case Backend::cuda:
      return kCuda;
    case Backend::cuda_emulated:
      return kCudaEmulated;
    default:
      return kCpu;
  }
}

const std::vector<Backend>& all_backends() {
  static const std::vector<Backend> all{Backend::cpu, Backend::cuda, Backend::cuda_emulated};
  return all;
}

std::string_view name(Backend backend) {
  return traits_of(backend).name;
}

Backend parse_backend(std::string_view text, std::string_view where) {
  std::vector<std::string> known;
  for (const Backend backend : all_backends()) {
    if (text == name(backend)) return backend;
    known.emplace_back(name(backend));
  }
  throw Error(
      ErrorCode::bad_input,
      fmt::format("{}{}", where, unknown_name_message("backend", std::string(text), known)));
}

std::string backend_flag(Backend backend) {
  return backend == Backend{} ? "" : fmt::format(" --backend {}", name(backend));
}

const std::optional<SkipReason>& no_device(Backend backend) {
  return traits_of(backend).no_device();
}

const std::vector<std::string>& describe_devices(Backend backend) {
  return traits_of(backend).descriptions();
}

const KernelTable& kernels_of(Backend backend) {
  return traits_of(backend).kernels();
}

std::int64_t default_chunk_rows(Backend backend, std::int64_t width) {
  const BackendTraits& traits = traits_of(backend);
  const std::int64_t row_bytes =
      std::max<std::int64_t>(width, 1) * static_cast<std::int64_t>(size_of(DType::f32));
  std::int64_t rows = traits.default_chunk_tokens;
  while (rows > kLeastChunkTokens && rows > traits.default_chunk_bytes / row_bytes) rows /= 2;
  return rows;
}

std::unique_ptr<Device> make_device(Backend backend, int rank) {
  if (const std::optional<SkipReason>& reason = no_device(backend)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("no device for backend {}: {}", name(backend), reason->text));
  }
  return traits_of(backend).make_device(rank);
}

}  // namespace lossgrid
