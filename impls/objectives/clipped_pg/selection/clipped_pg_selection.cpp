// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/selection/clipped_pg_selection.h"

#include <algorithm>

#include "harness/problem/batch/sharding.h"

namespace lossgrid {

SelectionTokens selection_tokens(const PackedBatch& batch, std::span<const double> numbers) {
  const ShiftedBatch rows = shift_targets(batch);
  SelectionTokens tokens;
  const auto valid = std::count_if(rows.valid.begin(), rows.valid.end(),
                                   [](std::uint8_t is_valid) { return is_valid != 0; });
  tokens.reserve(static_cast<std::size_t>(valid));
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    if (rows.valid[row] == 0) continue;
    const auto input = [&](TokenInput which) {
      const std::vector<float>& values = rows.inputs[static_cast<std::size_t>(which)];
      return values.empty() ? 0.0F : values[row];
    };
    const std::int32_t sequence = rows.sequence[row];
    const auto place = static_cast<std::int64_t>(row);
    const std::int64_t position = place - batch.cu_seqlens_padded[sequence] + batch.ahead;
    tokens.push_back({.place = place,
                      .sequence = sequence,
                      .position = static_cast<std::int32_t>(position),
                      .number = numbers.empty() ? 0 : numbers[row],
                      .prev = input(TokenInput::prev_logprobs),
                      .advantage = input(TokenInput::advantages),
                      .generation = input(TokenInput::generation_logprobs),
                      .version = input(TokenInput::versions)});
  }
  return tokens;
}

}  // namespace lossgrid
