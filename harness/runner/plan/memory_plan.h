// SPDX-License-Identifier: Apache-2.0
// Whether a trial fits this machine, asked before anything large is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/device/backend.h"
#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Bytes of one pack on a rank, whatever runs it: inputs, gradients, and the harness's own rows and
/// copies.
std::int64_t rank_data_bytes(const LossProblem& problem);

/// The most that a plan holds in any phase, on a rank.
std::int64_t workspace_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Bytes of one pack on a rank: data and workspaces.
std::int64_t trial_rank_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Bytes that a case needs whatever the implementation and the grid, from its lengths alone: what
/// implementations are given, the gradients of that, and the host arrays of batch and truth. At
/// most 2^62.
std::int64_t case_memory_bytes(const CaseSpec& spec);

/// Bytes that it takes to write a case as a bundle, with its float64 truth or without: what the
/// bundle says, as tensors and as the file, beside the case. At most 2^62.
std::int64_t bundle_memory_bytes(const CaseSpec& spec, bool with_truth);

/// Bytes of the file that a case becomes as a bundle, but for the header and what the objective
/// reads, a few bytes a token. At most 2^62.
std::int64_t bundle_file_bytes(const CaseSpec& spec, bool with_truth);

/// "not enough memory: needs 12.0 GiB, this machine has 8.0 GiB", or empty when `need` fits.
std::string why_too_big(std::int64_t need_bytes);

/// The most that ranks with so many bytes each (by rank) need of one of `devices` devices, which
/// they are dealt to in turn: rank r has device r modulo their number (see make_device). At most
/// 2^62.
std::int64_t fullest_device_bytes(const std::vector<std::int64_t>& rank_bytes, std::size_t devices);

/// Why ranks with so many bytes each, by rank, do not fit: side by side into the memory of this
/// machine, or dealt to its GPUs in turn. `gpu_each`: every rank has a GPU of its own, here or on
/// another machine. Empty when they fit.
std::string why_ranks_too_big(Backend backend, const std::vector<std::int64_t>& rank_bytes,
                              bool gpu_each);

}  // namespace lossgrid
