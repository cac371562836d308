// SPDX-License-Identifier: Apache-2.0
// Backends: the places where kernels run, and everything in which they differ (BackendTraits). cpu
// is the processor, cuda a GPU, cuda_emulated the kernels of cuda, block by block, on the
// processor, for machines without a GPU: its results count, its times do not.
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
  std::string_view tensor_device;  // that frameworks give the memory of tensors: "cpu", "cuda"
  bool is_gpu;                     // kernels and tensors are on hardware of their own
  bool launches_kernels;           // on a stream, as blocks of threads; false: loops of the host
  bool has_real_times;             // false: times of an emulation, which stand for nothing

  /// Returns nullopt if there is a device here. Looked for once, then the same for the process.
  const std::optional<SkipReason>& (*no_device)();
  /// Makes the device of a rank. Requires !no_device().
  std::unique_ptr<Device> (*make_device)(int rank);
  /// Returns a line for each GPU, "NVIDIA H200, sm_90, 139.8 GiB, driver 13.0"; none without GPUs.
  const std::vector<std::string>& (*descriptions)();
  /// Returns the identity of the calling rank's GPU, unique over machines; "" without GPUs.
  std::string (*gpu_uuid)();
  /// Returns the bytes that can still be allocated on rank 0's GPU; 0 without GPUs.
  std::int64_t (*free_gpu_bytes)();

  std::string_view timer;  // clock of make_timer: "steady_clock", "cuda_events"
  std::unique_ptr<DeviceTimer> (*make_timer)(Device& device);
  std::int64_t warm_up_ns;  // of timings: until clocks are those of a machine at work
  /// Returns the size of the last-level cache; of a GPU its second level, 0 if there is none.
  std::int64_t (*last_level_cache_bytes)();
  int cache_walk_percent;  // of the last-level cache: bytes to read that push everything else out

  /// Returns the table of Device::kernels(); that of the processor in builds without CUDA.
  const KernelTable& (*kernels)();
  /// Returns the name of the library of matrix products.
  std::string (*gemm_library)();
  bool has_bf16_choice;               // products of bf16 factors can be converted (gemm.h)
  std::int64_t default_chunk_tokens;  // rows of a chunk of the lm_head, at most
  std::int64_t
      default_chunk_bytes;  // float32 logits of a chunk, at most, but for kLeastChunkTokens
};

const BackendTraits& traits_of(Backend backend);
const std::vector<Backend>& all_backends();

/// Returns traits_of(backend).name.
std::string_view name(Backend backend);
/// Returns the backend of that name. Throws bad_input with the names; `where` begins the message.
Backend parse_backend(std::string_view text, std::string_view where);
/// Returns " --backend cuda", the flag that selects the backend; "" for the default.
std::string backend_flag(Backend backend);

/// Shorthands for traits_of(backend).
const std::optional<SkipReason>& no_device(Backend backend);
const std::vector<std::string>& describe_devices(Backend backend);
const KernelTable& kernels_of(Backend backend);

/// Rows that a chunk of the lm_head has by default however wide they are.
inline constexpr std::int64_t kLeastChunkTokens = 256;

/// Returns the rows of a chunk of the lm_head where nobody asks for another number: of `width` ids
/// on a rank. It depends on nothing else, so that all ranks have as many chunks.
std::int64_t default_chunk_rows(Backend backend, std::int64_t width);

/// Makes the device of a rank of this process; ranks beyond the number of GPUs share them in turn.
/// Throws unsupported if there is none.
std::unique_ptr<Device> make_device(Backend backend, int rank);

}  // namespace lossgrid
