// SPDX-License-Identifier: Apache-2.0
// Ids and masks of a case, drawn from its seed for given lengths. Internal to make_problem. Pure
// functions of their arguments; all throw bad_input that names the key and the rule.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/case/case_spec.h"
#include "harness/problem/values/sampling_mask.h"

namespace lossgrid {

/// Returns [S] zeros and ones.
std::vector<std::uint8_t> case_sample_mask(const CaseSpec& spec, std::int64_t sequences);

/// Returns [T] zeros and ones. The one target that a sparse mask always has falls into a sample
/// that `sample_mask` [S] keeps.
std::vector<std::uint8_t> case_token_mask(const CaseSpec& spec,
                                          const std::vector<std::int64_t>& cu_seqlens,
                                          const std::vector<std::uint8_t>& sample_mask);

/// Leaves the last one of the ones of every sequence: the token that has its score.
void keep_last_tokens(const std::vector<std::int64_t>& cu_seqlens, std::vector<std::uint8_t>& mask);

/// Returns [T] ids in [0, V). A token is the target of the row before it.
std::vector<std::int32_t> case_input_ids(const CaseSpec& spec, std::int64_t tokens);

/// Replaces three quarters of the targets that the kept set of their row leaves out by ids of that
/// set, as a sampler draws them; none where the case chooses its ids, or its rows follow from them.
void draw_kept_targets(const CaseSpec& spec, const std::vector<std::int64_t>& cu_seqlens,
                       const SamplingMask& mask, std::vector<std::int32_t>& ids);

/// Returns the denominators that the case states for the global batch; those that it does not state
/// are counted over the targets of this batch.
Denominators case_denominators(const CaseSpec& spec, const std::vector<std::int64_t>& cu_seqlens,
                               const std::vector<std::uint8_t>& token_mask,
                               const std::vector<std::uint8_t>& sample_mask);

/// Returns [S] temperatures by sequence in [0.5, 2], the first of them 1; empty unless the case has
/// some.
std::vector<float> case_temperatures(const CaseSpec& spec, std::int64_t sequences);

}  // namespace lossgrid
