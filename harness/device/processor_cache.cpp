// SPDX-License-Identifier: Apache-2.0
#include "harness/device/processor_cache.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace lossgrid {
namespace {

/// Returns the bytes of a file such as "32768K"; 0 without the file.
std::int64_t size_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t size = 0;
  char unit = ' ';
  if (!(file >> size)) return 0;
  file >> unit;
  return unit == 'K' ? size * 1024 : unit == 'M' ? size * 1024 * 1024 : size;
}

std::int64_t find_last_level() {
  constexpr int kMostCaches = 8;
  std::int64_t largest = 0;
  for (int k = 0; k < kMostCaches; ++k) {
    largest = std::max(largest,
                       size_in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", k)));
  }
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (largest <= 0) largest = ::sysconf(level);
  }
  return largest > 0 ? largest : std::int64_t{32} << 20;
}

}  // namespace

std::int64_t processor_cache_bytes() {
  static const std::int64_t bytes = find_last_level();
  return bytes;
}

}  // namespace lossgrid
