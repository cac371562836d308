// SPDX-License-Identifier: Apache-2.0
// Texts of the numbers of timing rows (timing_numbers.h), and heads of their columns.
#pragma once

#include <optional>
#include <string>

#include "reports/record/column.h"

namespace lossgrid {

/// Returns the head of a column: its title, with the unit where texts of numbers lack it ("GB/s").
std::string column_head(const Column& column);

/// Returns the text of a number: "2.00x", "12%", "0.043" of milliseconds, "8.1" of GB/s, "81.2k";
/// "-" for an unknown one.
std::string number_text(const std::optional<double>& value, Unit unit);

}  // namespace lossgrid
