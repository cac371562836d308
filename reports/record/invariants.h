// SPDX-License-Identifier: Apache-2.0
// The invariants of a trial: properties that need no truth to be judged by. Each registers itself
// beside the code that judges it. `lossgrid list invariants` and docs/verification.md list them.
#pragma once

#include <limits>
#include <vector>

namespace lossgrid {

struct InvariantEntry {
  const char* name;                             // in reports
  const char* condition;                        // that holds, for a reader
  int place = std::numeric_limits<int>::max();  // in lists; the last ones stand by name
};

/// Names of invariants that verdicts treat in ways of their own.
inline constexpr const char* kMemoryFromDevice = "memory_from_device";
inline constexpr const char* kScaleIdentity = "scale_identity";

struct RegisteredInvariant : InvariantEntry {
  explicit RegisteredInvariant(const InvariantEntry& entry);
};

/// Returns all invariants, in the order of lists.
std::vector<InvariantEntry> invariants();

}  // namespace lossgrid
