// SPDX-License-Identifier: Apache-2.0
// Logits that are logarithms of probabilities: those of another source less the logarithm of the
// sum of their exponentials, rounded to a dtype as a teacher sends them.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/problem/values/logits_source.h"

namespace lossgrid {

/// Returns the log-softmax of the rows of `source`; a row without a probability stays as it is.
std::shared_ptr<const LogitsSource> make_logprobs(std::shared_ptr<const LogitsSource> source,
                                                  std::int64_t vocab, DType dtype);

}  // namespace lossgrid
