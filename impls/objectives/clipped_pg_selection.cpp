// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg_selection.h"

#include "harness/problem/batch/sharding.h"

namespace lossgrid {

SelectionTokens selection_tokens(const PackedBatch& batch, std::span<const double> numbers) {
  const ShiftedBatch rows = shift_targets(batch);
  SelectionTokens tokens;
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    if (rows.valid[row] == 0) continue;
    const auto input = [&](TokenInput which) {
      const std::vector<float>& values = rows.inputs[static_cast<std::size_t>(which)];
      return values.empty() ? 0.0 : static_cast<double>(values[row]);
    };
    const std::int32_t sequence = rows.sequence[row];
    const auto place = static_cast<std::int64_t>(row);
    tokens.push_back({.place = place,
                      .sequence = sequence,
                      .position = place - batch.cu_seqlens_padded[sequence] + batch.ahead,
                      .number = numbers.empty() ? 0 : numbers[row],
                      .advantage = input(TokenInput::advantages),
                      .prev = input(TokenInput::prev_logprobs),
                      .generation = input(TokenInput::generation_logprobs)});
  }
  return tokens;
}

}  // namespace lossgrid
