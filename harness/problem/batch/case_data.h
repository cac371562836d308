// SPDX-License-Identifier: Apache-2.0
// Internal to make_problem: ids and masks of a case, drawn from its seed for given lengths.
// Pure functions of their arguments. All throw bad_input that names the key and the rule.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// [S] 0 or 1.
std::vector<std::uint8_t> case_sample_mask(const CaseSpec& spec, std::int64_t sequences);

/// [T] 0 or 1. `sample_mask` [S]: the one target of a sparse mask falls into a sample that counts.
std::vector<std::uint8_t> case_token_mask(const CaseSpec& spec,
                                          const std::vector<std::int64_t>& cu_seqlens,
                                          const std::vector<std::uint8_t>& sample_mask);

/// [T] ids in [0, V). A token is the target of the row before it.
std::vector<std::int32_t> case_input_ids(const CaseSpec& spec, std::int64_t tokens);

/// Counted over the targets of this batch, or what the case says of the global batch.
Denominators case_denominators(const CaseSpec& spec, const std::vector<std::int64_t>& cu_seqlens,
                               const std::vector<std::uint8_t>& token_mask,
                               const std::vector<std::uint8_t>& sample_mask);

}  // namespace lossgrid
