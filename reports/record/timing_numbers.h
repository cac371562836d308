// SPDX-License-Identifier: Apache-2.0
// `TimingNumber`: a number of a timing row that tables show. The columns stand in the list of the
// fields of a row (timing_row.h), all tables take them from here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/record/column.h"
#include "reports/record/timing_row.h"

namespace lossgrid {

struct TimingNumber {
  std::string key;    // of the report
  std::string about;  // a sentence
  Column column;
  std::optional<double> value;  // nullopt: not known
  std::string note = {};        // stands behind the number; may be empty
};

/// Returns the numbers of `row`, the most important first; the same columns for every row.
std::vector<TimingNumber> timing_numbers(const TimingRow& row);

/// Returns the numbers that short tables have too: markdown and OpenMetrics.
std::vector<TimingNumber> summary_numbers(const TimingRow& row);

}  // namespace lossgrid
