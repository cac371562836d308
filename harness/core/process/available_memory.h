// SPDX-License-Identifier: Apache-2.0
// Memory that this process can still allocate: the smallest of the machine's available memory and
// the remainders of the control groups (containers, jobs of a batch system) around the process.
// Memory that the kernel reclaims on demand, such as cached files, counts as free.
#pragma once

#include <cstdint>
#include <string>

namespace lossgrid {

/// Returns the least of MemAvailable in /proc/meminfo and the remainder of each control group's
/// limit, version 1 or 2, from the process's own group up to the root; the largest number if none
/// can be read. `root` is prepended to all paths.
std::int64_t available_memory_bytes(const std::string& root = "");

}  // namespace lossgrid
