// SPDX-License-Identifier: Apache-2.0
// The diagnosis of a failed trial: from what is known about its wrong numbers to sentences that
// name what would explain them. A sentence states numbers and asks; it is no verdict, and where
// nothing known fits there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/verify/failed_elements.h"
#include "harness/verify/failed_logprobs.h"
#include "harness/verify/part_places.h"
#include "harness/verify/scale_suspects.h"
#include "harness/verify/shard_checks.h"

namespace lossgrid {

/// What one rank made of one gradient in one microbatch.
struct GradientPart {
  PartPlace place;
  BiasSums sums;
  FailedElements failed;
  std::int64_t trained_rows = 0;  // 0: not known
};

struct GradientFacts {
  std::string name;          // "grad_logits"
  bool failed = false;       // one of its checks
  bool bias_failed = false;  // that of all elements together
  bool not_written = false;  // some of it
  BiasSums sums = {};        // of all parts, copies once
  std::vector<GradientPart> parts = {};
};

struct LogprobPart {
  PartPlace place;
  FailedLogprobs failed;
};

struct LossFacts {
  double got = 0;
  double want = 0;
};

struct FailureFacts {
  TrialSizes sizes;
  std::optional<LossFacts> loss;  // only of a loss that failed
  std::vector<LogprobPart> logprobs;
  std::vector<GradientFacts> gradients;
  // Rows of the whole batch that take part in the loss and have -inf logits; ascending. Looked for
  // only where there is a NaN.
  std::vector<std::int64_t> minus_inf_rows;
};

/// Whether there is a NaN in log-probabilities or gradients.
bool has_nan(const FailureFacts& facts);

/// Sentences without a period, what is most likely the cause first. `external`: of an
/// implementation from outside, whose conventions are declared: names the declaration that would
/// make it right.
std::vector<std::string> explain(const FailureFacts& facts, bool external);

}  // namespace lossgrid
