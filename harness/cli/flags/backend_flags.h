// SPDX-License-Identifier: Apache-2.0
// Flags of the backend that kernels run on, and of the hardware and libraries that a run requires.
#pragma once

#include <string>

#include "harness/cli/command.h"
#include "harness/device/backend.h"
#include "harness/runner/job/ranks.h"

namespace lossgrid {

struct BackendFlags {
  std::string backend = "cpu";
  std::string require;  // required hardware and libraries, comma separated
};

void add_backend_flags(CLI::App& command, BackendFlags& flags);

/// Returns the backend of `flags`. Throws bad_input for an unknown backend, and if anything in
/// --require is missing, because its trials would be skipped. Throws usage for a backend that
/// --transport nccl cannot serve. Collective over processes.
Backend requested_backend(const BackendFlags& flags, const Ranks& ranks = Ranks());

}  // namespace lossgrid
