// SPDX-License-Identifier: Apache-2.0
#include "reports/record/column.h"

#include <array>
#include <cstddef>

namespace lossgrid {

std::string_view name(Direction direction) {
  constexpr std::array<std::string_view, 3> kNames{"lower", "higher", "equal"};
  return kNames[static_cast<std::size_t>(direction)];
}

std::string_view name(Unit unit) {
  constexpr std::array<std::string_view, 7> kNames{
      "count",      "factor",           "percent",         "nanoseconds",
      "per_second", "bytes_per_second", "flops_per_second"};
  return kNames[static_cast<std::size_t>(unit)];
}

}  // namespace lossgrid
