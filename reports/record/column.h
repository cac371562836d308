// SPDX-License-Identifier: Apache-2.0
// `Column`: the place of a number in tables. A field of a record has one in its rule (field.h), and
// every table of such records shows it: the text table, the HTML page, markdown and OpenMetrics.
#pragma once

#include <optional>
#include <string_view>

namespace lossgrid {

/// Better one of two values: the lower, the higher, neither (any difference is worse).
enum class Direction { lower, higher, equal };

std::string_view name(Direction direction);

/// Unit of a number, from which its text follows.
enum class Unit {
  count,
  factor,   // 2.00x
  percent,  // of a share: 0.5 is 50 %
  nanoseconds,
  per_second,
  bytes_per_second,
  flops_per_second,
};

std::string_view name(Unit unit);

struct Column {
  const char* title = nullptr;  // null: tables leave the field out
  Unit unit = Unit::count;
  const char* about = nullptr;  // short description, a sentence; null: that of the field
  const char* note = nullptr;   // key of the text that stands behind the number, of the same record
  int place = 100;              // from the left in the text table
  // Narrow text tables leave out the least important columns; all other tables begin with the most
  // important.
  int importance = 0;
  bool in_summaries = true;              // false: neither in markdown nor in OpenMetrics
  std::optional<Direction> better = {};  // a metric of policies
};

}  // namespace lossgrid
