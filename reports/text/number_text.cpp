// SPDX-License-Identifier: Apache-2.0
#include "reports/text/number_text.h"

#include <cmath>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "reports/record/timing_record.h"

namespace lossgrid {
namespace {

/// "812", "81.2k", "8.12M"
std::string short_rate(double per_second) {
  const char* units[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (per_second >= 1000 && unit + 1 < std::size(units)) {
    per_second /= 1000;
    ++unit;
  }
  const int decimals = per_second < 10 ? 2 : per_second < 100 ? 1 : 0;
  return fmt::format("{:.{}f}{}", per_second, decimals, units[unit]);
}

}  // namespace

std::string column_head(const Column& column) {
  if (column.unit == Unit::bytes_per_second) return "GB/s";
  if (column.unit == Unit::flops_per_second) return "GFLOP/s";
  return column.title + std::string(column.unit == Unit::nanoseconds ? " ms" : "");
}

std::string number_text(const std::optional<double>& value, Unit unit) {
  if (!value) return "-";
  switch (unit) {
    case Unit::count:
      return fmt::format("{:.0f}", *value);
    case Unit::factor:
      return fmt::format("{:.2f}x", *value);
    case Unit::percent:
      return fmt::format("{:.0f}%", 100 * *value);
    case Unit::nanoseconds:
      return format_milliseconds(std::llround(*value));
    case Unit::per_second:
      return short_rate(*value);
    case Unit::bytes_per_second:
    case Unit::flops_per_second:
      return fmt::format("{:.1f}", *value * 1e-9);
  }
  return "-";
}

}  // namespace lossgrid
