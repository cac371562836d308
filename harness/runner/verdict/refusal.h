// SPDX-License-Identifier: Apache-2.0
// Why an implementation is not run, as all processes of a job see it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "harness/core/error.h"
#include "harness/runner/ranks.h"

namespace lossgrid {

struct Refusal {
  std::string reason;  // empty: it runs
  // The code of the user that was asked raised, died or did not come back.
  std::optional<ErrorCode> failure = {};
};

/// What `why_not` returns on the first process that has a reason, or that it fails on. Collective
/// over the processes.
Refusal agreed_refusal(const Ranks& ranks, const std::function<std::string()>& why_not);

}  // namespace lossgrid
