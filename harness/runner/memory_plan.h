// SPDX-License-Identifier: Apache-2.0
// Whether a trial fits this machine, asked before anything large is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "harness/comm/process_grid.h"
#include "harness/loss/loss_implementation.h"
#include "harness/problem/problem.h"

namespace lossgrid {

/// Bytes of one pack on a rank, whatever runs it: inputs, gradients, and the harness's own rows and
/// copies.
std::int64_t rank_data_bytes(const LossProblem& problem);

/// The most that a plan holds in any phase, on a rank.
std::int64_t workspace_bytes(const LossProblem& problem, const LossImplementation& implementation);

/// Bytes of one pack on all ranks of a dp rank: data and workspaces.
std::int64_t trial_memory_bytes(const LossProblem& problem,
                                const LossImplementation& implementation);

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
/// The same for the memory of this process's GPU.
std::string why_too_big_for_gpu(std::int64_t need_bytes);

}  // namespace lossgrid
