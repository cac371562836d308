// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/record/chunk_errors.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {

std::string format_chunk_table(const RunRecord& run, const TextStyle& style) {
  constexpr std::size_t kWidth = 130;
  TextTable table;
  table.add_column("chunks", Align::right);
  table.add_column("implementation", Align::left);
  table.add_column("relative_l2", Align::right);
  table.add_column("ratio", Align::right);
  const std::vector<ChunkErrorRow> rows = weight_error_by_chunks(run);
  std::string last_case;
  for (const ChunkErrorRow& row : rows) {
    if (row.case_title != last_case) table.add_title(shortened(row.case_title, kWidth));
    last_case = row.case_title;
    table.add_row({std::to_string(row.chunks), row.implementation,
                   fmt::format("{:.3g}", row.relative_l2), format_ratio(row.ratio)});
  }
  if (rows.empty()) return "";
  return '\n' +
         wrapped(
             "Relative error of d weight by chunks, |error| / |truth|, and the ratio of its "
             "worst element:",
             style.columns_up_to(kWidth)) +
         table.text(style) + '\n';
}

}  // namespace lossgrid
