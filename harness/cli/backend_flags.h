// SPDX-License-Identifier: Apache-2.0
// Where kernels run, and what has to be there for that.
#pragma once

#include <string>

#include "harness/cli/command.h"
#include "harness/device/backend.h"
#include "harness/runner/ranks.h"

namespace lossgrid {

struct BackendFlags {
  std::string backend = "cpu";
  std::string require;  // comma separated
};

void add_backend_flags(CLI::App& command, BackendFlags& flags);

/// Throws bad_input for what no build has, and where something that --require names is not there:
/// its trials would be skipped.
Backend requested_backend(const BackendFlags& flags, const Ranks& ranks = Ranks());

}  // namespace lossgrid
