// SPDX-License-Identifier: Apache-2.0
// Memory that cases, bundles and trials need, and whether they fit this machine: read before
// anything large is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/core/skip_reason.h"
#include "harness/device/backend.h"
#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Returns the bytes of one pack on a rank, whatever runs it: inputs, gradients, and the harness's
/// own rows and copies.
std::int64_t rank_data_bytes(const LossProblem& problem);

/// Returns the largest workspace of a plan over its phases, on a rank.
std::int64_t workspace_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Returns the bytes of one pack on a rank: data and workspaces.
std::int64_t trial_rank_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Returns the bytes that a case needs whatever the implementation and the grid, from its lengths
/// alone: inputs of implementations, their gradients, and the host arrays of batch and truth. At
/// most 2^62.
std::int64_t case_memory_bytes(const CaseSpec& spec);

/// Returns the bytes of memory that it takes to write a case as a bundle, with its float64 truth or
/// without: contents of the bundle, as tensors and as the file, beside the case. At most 2^62.
std::int64_t bundle_memory_bytes(const CaseSpec& spec, bool with_truth);

/// Returns the bytes of the file that a case becomes as a bundle, but for the header and the inputs
/// of the objective, a few bytes a token. At most 2^62.
std::int64_t bundle_file_bytes(const CaseSpec& spec, bool with_truth);

/// Returns "not enough memory: needs 12.0 GiB, this machine has 8.0 GiB"; nullopt when it fits, and
/// up to 16 MiB.
std::optional<SkipReason> memory_shortage(std::int64_t need_bytes);

/// Returns the most that ranks with these bytes (by rank) need of one of `devices` devices, to
/// which they are dealt in turn: rank r has device r modulo their number (see make_device). At most
/// 2^62.
std::int64_t fullest_device_bytes(const std::vector<std::int64_t>& rank_bytes, std::size_t devices);

/// Memory that the ranks of a trial or timing need side by side.
struct RanksMemory {
  std::vector<std::int64_t> rank_bytes;  // by rank; of its GPU on the CUDA backend
  std::int64_t rank_host_bytes = 0;      // of the host, for each rank of the CUDA backend
};

/// Returns a reason when the ranks do not fit: side by side into the memory of this machine, or
/// dealt to its GPUs in turn. `gpu_each`: every rank has a GPU of its own, here or on another
/// machine.
std::optional<SkipReason> memory_shortage(Backend backend, const RanksMemory& need, bool gpu_each);

}  // namespace lossgrid
