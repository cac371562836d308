// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/byte_count.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {

std::int64_t parse_bytes(const std::string& text, const std::string& flag) {
  struct Unit {
    const char* name;
    std::int64_t bytes;
  };
  constexpr std::int64_t kKibi = 1024;
  constexpr Unit kUnits[] = {{"", 1},
                             {"B", 1},
                             {"KB", 1'000},
                             {"MB", 1'000'000},
                             {"GB", 1'000'000'000},
                             {"TB", 1'000'000'000'000},
                             {"KiB", kKibi},
                             {"MiB", kKibi * kKibi},
                             {"GiB", kKibi * kKibi * kKibi},
                             {"TiB", kKibi * kKibi * kKibi * kKibi}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string suffix = text.substr(digits);
  for (const Unit& unit : kUnits) {
    if (digits == 0 || suffix != unit.name) continue;
    const std::int64_t count =
        parse_integer(text.substr(0, digits), flag, 1, std::int64_t{1} << 62);
    return checked_product(count, unit.bytes, flag);
  }
  throw_bad_input("{} = '{}' is no number of bytes such as 80GiB, 80GB, 512MiB or 1000000", flag,
                  text);
}

}  // namespace lossgrid
