// SPDX-License-Identifier: Apache-2.0
// Memory that this process may still take: that of the machine, and what the control groups that it
// runs in (containers, jobs of a batch system) leave it. Memory that the kernel gives back as soon
// as it is wanted, such as cached files, counts as free.
#pragma once

#include <cstdint>
#include <string>

namespace lossgrid {

/// The smallest of what /proc/meminfo calls available and what is left of the limit of each control
/// group, version 1 or 2, from the process's own up to the root; the largest number where none of
/// them can be read. `root` is put before all paths.
std::int64_t available_memory_bytes(const std::string& root = "");

}  // namespace lossgrid
