// SPDX-License-Identifier: Apache-2.0
// Backends: the places where kernels run, and everything in which they differ (BackendTraits). cpu
// is the processor; cuda is a GPU; cuda_emulated runs the kernels of cuda on the processor, block
// by block, for machines without a GPU: its results count, its times do not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/skip_reason.h"
#include "harness/device/device.h"
#include "harness/device/device_timer.h"

namespace lossgrid {

/// Properties of one backend. Code that depends on the backend asks for a property, never for the
/// backend's name. Functions may be called by any thread unless they take a device.
struct BackendTraits {
  std::string_view name;           // "cpu", "cuda", "cuda_emulated"
  std::string_view tensor_device;  // device of tensors in frameworks: "cpu", "cuda"
  bool is_gpu;                     // kernels and tensors are on hardware of their own
  bool launches_kernels;           // false: kernels are loops of the host
  bool has_real_times;             // false for an emulation, whose times mean nothing

  /// Returns nullopt if this machine has a device. Looked up once a process.
  const std::optional<SkipReason>& (*no_device)();
  /// Makes the device of a rank. Requires !no_device().
  std::unique_ptr<Device> (*make_device)(int rank);
  /// Returns a line for each GPU, such as "NVIDIA H200, sm_90, 139.8 GiB, driver 13.0".
  const std::vector<std::string>& (*descriptions)();
  /// Returns the identity of the calling rank's GPU, unique over machines; "" without GPUs.
  std::string (*gpu_uuid)();
  /// Returns the bytes that can still be allocated on rank 0's GPU; 0 without GPUs.
  std::int64_t (*free_gpu_bytes)();

  std::string_view timer;  // clock of make_timer: "steady_clock", "cuda_events"
  std::unique_ptr<DeviceTimer> (*make_timer)(Device& device);
  std::int64_t warm_up_ns;  // of timings: until clocks reach their speed under load
  /// Returns the size of the last-level cache, which on a GPU is the second level; 0 without a
  /// cache.
  std::int64_t (*last_level_cache_bytes)();
  int cache_walk_percent;  // part of the last-level cache to read, so that all else is evicted

  /// Returns the table of Device::kernels(); in builds without CUDA, the table of the processor.
  const KernelTable& (*kernels)();
  /// Returns the name of the library of matrix products.
  std::string (*gemm_library)();
  bool has_bf16_choice;               // products of bf16 may be native or converted
  std::int64_t default_chunk_tokens;  // most rows of a chunk of the lm_head
  std::int64_t default_chunk_bytes;   // most bytes of a chunk's float32 logits
};

const BackendTraits& traits_of(Backend backend);
const std::vector<Backend>& all_backends();

/// Returns traits_of(backend).name.
std::string_view name(Backend backend);
/// Returns the backend named `text`. Throws bad_input with the known names; `where` begins the
/// message.
Backend parse_backend(std::string_view text, std::string_view where);
/// Returns " --backend cuda", the flag that selects the backend; "" for the default.
std::string backend_flag(Backend backend);

/// Shorthands for traits_of(backend).
const std::optional<SkipReason>& no_device(Backend backend);
const std::vector<std::string>& describe_devices(Backend backend);
const KernelTable& kernels_of(Backend backend);

/// Fewest rows of a default chunk of the lm_head, however wide the rows are.
inline constexpr std::int64_t kLeastChunkTokens = 256;

/// Returns the default number of rows in a chunk of the lm_head, for `width` ids on a rank. It
/// depends on nothing else, so that all ranks have the same number of chunks.
std::int64_t default_chunk_rows(Backend backend, std::int64_t width);

/// Makes the device of a rank of this process; ranks beyond the number of GPUs share GPUs in turn.
/// Throws unsupported without a device.
std::unique_ptr<Device> make_device(Backend backend, int rank);

}  // namespace lossgrid
