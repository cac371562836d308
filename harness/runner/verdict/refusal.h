// SPDX-License-Identifier: Apache-2.0
// Agreement of all processes of a job on whether an implementation runs.
#pragma once

#include <functional>
#include <optional>

#include "harness/core/skip_reason.h"
#include "harness/runner/job/ranks.h"
#include "harness/runner/verdict/trial_verdict.h"

namespace lossgrid {

/// Returns the facts of the first process on which `skip_reason` returns a reason or fails, the
/// same on all: `skipped` or `failure` is set, or neither when it runs. A failure is a refusal of
/// the implementation (thrown as unsupported), or user code that raised, died or did not come back;
/// all other errors are thrown. Collective over the processes.
TrialFacts agree_on_refusal(const Ranks& ranks,
                            const std::function<std::optional<SkipReason>()>& skip_reason);

}  // namespace lossgrid
