// SPDX-License-Identifier: Apache-2.0
// Logits of which a row holds k, as a teacher sends them: those of its most probable ids, or those
// of ids that a file names; all others are -inf.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/problem/values/logits_source.h"

namespace lossgrid {

/// Returns `source` with -inf in all but the k largest logits of a row, 1 <= k <= vocab; of equal
/// ones the lower id is the larger.
std::shared_ptr<const LogitsSource> make_topk_logits(std::shared_ptr<const LogitsSource> source,
                                                     std::int64_t vocab, std::int64_t k);

/// Returns logits [T, k] at ids [T, k], -inf elsewhere.
std::shared_ptr<const LogitsSource> make_logits_at_ids(std::vector<std::int32_t> ids,
                                                       std::vector<float> logits, std::int64_t k);

}  // namespace lossgrid
