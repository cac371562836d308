// SPDX-License-Identifier: Apache-2.0
// Logits that are kept once they are made: all ranks and trials of a case read the same rows.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/core/dtype.h"
#include "harness/problem/values/logits_source.h"

namespace lossgrid {

/// Logits of more bytes than this are made again at every read.
inline constexpr std::int64_t kMostKeptBytes = std::int64_t{64} << 20;

/// Returns `source` with its rows kept from the first read of each on, with the same bits; `source`
/// itself if it gives its logits in another way or they have more than kMostKeptBytes. `rows`: T;
/// `dtype`: of the logits.
std::shared_ptr<const LogitsSource> keep_logits(std::shared_ptr<const LogitsSource> source,
                                                std::int64_t rows, std::int64_t vocab, DType dtype);

}  // namespace lossgrid
