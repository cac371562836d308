// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/available_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// Returns the number in a file; nullopt for other text ("max") or a missing file.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// Returns the sum of the values of `keys` in a file of lines "key value".
std::int64_t sum_of_values(const fs::path& path, std::initializer_list<std::string_view> keys) {
  std::ifstream file(path);
  std::int64_t sum = 0;
  std::string key;
  std::int64_t value = 0;
  while (file >> key >> value) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) sum += value;
  }
  return sum;
}

std::int64_t machine_available(const fs::path& meminfo) {
  std::ifstream file(meminfo);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kib = 0;
    if (words >> key >> kib && key == "MemAvailable:") return kib * 1024;
  }
  return kUnlimited;
}

/// Files and entries of one version of control groups. Pages on the lists of files can be reclaimed
/// without loss; pages of shared memory are on other lists.
struct Version {
  const char* controller;  // in /proc/self/cgroup
  const char* mount;
  const char* limit;
  const char* used;
  std::initializer_list<std::string_view> reclaimable;  // in memory.stat
};

const Version kVersions[] = {
    {"",
     "sys/fs/cgroup",
     "memory.max",
     "memory.current",
     {"active_file", "inactive_file", "slab_reclaimable"}},
    {"memory",
     "sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"}},
};

/// Returns the path of the process in the hierarchy of a controller, from lines
/// "id:controllers:path".
std::string own_group(const fs::path& self, std::string_view controller) {
  std::ifstream file(self);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream controllers(line.substr(first + 1, second - first - 1) + ',');
    std::string one;
    while (std::getline(controllers, one, ',')) {
      if (one == controller) return line.substr(second + 1);
    }
  }
  return "/";
}

/// Returns the limit of a group minus its use without reclaimable pages, at least 0.
std::int64_t unused_bytes(const fs::path& group, const Version& version) {
  const std::optional<std::int64_t> limit = number_in(group / version.limit);
  const std::optional<std::int64_t> used = number_in(group / version.used);
  if (!limit || !used) return kUnlimited;
  const std::int64_t reclaimable = sum_of_values(group / "memory.stat", version.reclaimable);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - reclaimable));
}

/// Returns the least remainder of the own group and of the groups above it. In a container the path
/// may be a path of the host, which is invisible there: then the mounted root is the container's
/// own group.
std::int64_t groups_available(const fs::path& root, const Version& version) {
  const fs::path mount = root / version.mount;
  std::int64_t least = unused_bytes(mount, version);
  fs::path group = mount;
  const fs::path own = own_group(root / "proc/self/cgroup", version.controller);
  for (const fs::path& part : own.relative_path()) {
    group /= part;
    least = std::min(least, unused_bytes(group, version));
  }
  return least;
}

}  // namespace

std::int64_t available_memory_bytes(const std::string& root) {
  const fs::path from = root + "/";
  std::int64_t least = machine_available(from / "proc/meminfo");
  for (const Version& version : kVersions) {
    least = std::min(least, groups_available(from, version));
  }
  return least;
}

}  // namespace lossgrid
