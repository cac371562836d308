// SPDX-License-Identifier: Apache-2.0
// Memory needs of cases, bundles and trials, and checks if they fit this machine, made before
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

/// Returns the bytes of one pack on a rank for any implementation: inputs, gradients, and the
/// harness's own rows and copies.
std::int64_t rank_data_bytes(const LossProblem& problem);

/// Returns the largest workspace of a plan on a rank over its phases.
std::int64_t workspace_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Returns the bytes of one pack on a rank: data and workspaces.
std::int64_t trial_rank_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Returns the bytes that a case needs for any implementation and grid, from its lengths alone:
/// inputs of implementations, their gradients, and the host arrays of batch and truth. At most
/// 2^62.
std::int64_t case_memory_bytes(const CaseSpec& spec);

/// Returns the bytes of memory needed to write a case as a bundle, with or without its float64
/// truth: contents of the bundle, both as tensors and as the file, in addition to the case. At most
/// 2^62.
std::int64_t bundle_memory_bytes(const CaseSpec& spec, bool with_truth);

/// Returns the size of a case's bundle file without the header and the inputs of the objective,
/// which are a few bytes per token. At most 2^62.
std::int64_t bundle_file_bytes(const CaseSpec& spec, bool with_truth);

/// Returns "not enough memory: needs 12.0 GiB, this machine has 8.0 GiB"; nullopt if `need_bytes`
/// fits or is at most 16 MiB.
std::optional<SkipReason> memory_shortage(std::int64_t need_bytes);

/// Returns the largest need on one of `devices` devices, given the bytes of each rank. Rank r has
/// device r modulo `devices` (see make_device). At most 2^62.
std::int64_t fullest_device_bytes(const std::vector<std::int64_t>& rank_bytes, std::size_t devices);

/// Memory that the ranks of a trial or timing need at the same time.
struct RanksMemory {
  std::vector<std::int64_t> rank_bytes;  // by rank; on its GPU with the CUDA backend
  std::int64_t rank_host_bytes = 0;      // on the host, for each rank of the CUDA backend
};

/// Returns a reason if the ranks do not fit together into the memory of this machine, or, dealt in
/// turn, onto its GPUs. With `gpu_each` every rank has its own GPU, here or on another machine.
std::optional<SkipReason> memory_shortage(Backend backend, const RanksMemory& need, bool gpu_each);

}  // namespace lossgrid
