// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/rows_to_read.h"

namespace lossgrid {

std::vector<std::int64_t> rows_to_read(const Problem& problem, const PackedLayout& layout) {
  const std::vector<std::uint8_t> valid = problem.row_valid();
  const bool read_all = !problem.poison_true_rows || problem.spec.poison == Poison::none;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(layout.padded_tokens()), -1);
  for (std::size_t i = 0; i < layout.lengths.size(); ++i) {
    for (std::int64_t offset = 0; offset < layout.lengths[i]; ++offset) {
      const std::int64_t token = layout.cu[i] + offset;
      if (valid[token] != 0 || read_all) {
        rows[layout.cu_padded[i] + offset] = token;
      }
    }
  }
  return rows;
}

}  // namespace lossgrid
