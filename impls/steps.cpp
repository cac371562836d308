// SPDX-License-Identifier: Apache-2.0
#include "impls/steps.h"

#include <algorithm>
#include <cmath>

namespace lossgrid {
namespace {

std::vector<std::int64_t> zigzag_rows(const PackedBatch& batch, int cp, int cp_rank) {
  return cp_rows(batch.cu_seqlens_padded, cp, cp_rank);
}

ShiftedBatch shift_then_split(const PackedBatch& batch, const Steps& steps, int cp, int cp_rank) {
  const ShiftedBatch pack = steps.shift(batch);
  ShiftedBatch local;
  for (const std::int64_t position : steps.local_rows(batch, cp, cp_rank)) {
    local.targets.push_back(pack.targets[position]);
    local.valid.push_back(pack.valid[position]);
    local.sequence.push_back(pack.sequence[position]);
  }
  return local;
}

std::vector<RowRange> all_chunks(std::int64_t rows, std::int64_t chunk) {
  std::vector<RowRange> ranges;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    ranges.push_back({begin, std::min(chunk, rows - begin)});
  }
  return ranges;
}

void all_reduce_max(Communicator& tp, std::span<float> values) {
  tp.all_reduce(values, ReduceOp::max);
}

void all_reduce_sum(Communicator& comm, std::span<float> values) {
  comm.all_reduce(values, ReduceOp::sum);
}

std::vector<std::int64_t> rows_rank_by_rank(const PackedBatch& batch, const Steps& steps, int cp) {
  std::vector<std::int64_t> order;
  for (int rank = 0; rank < cp; ++rank) {
    const std::vector<std::int64_t> rows = steps.local_rows(batch, cp, rank);
    order.insert(order.end(), rows.begin(), rows.end());
  }
  return order;
}

float one_of_cp(int cp) {
  return 1.0f / static_cast<float>(cp);
}

void apply_objective(const Objective& objective, const ObjectiveTokens& tokens,
                     const PackedBatch& batch, int /*cp*/, std::span<double> partials,
                     std::span<float> grad) {
  objective.token_terms(tokens, batch, partials, grad);
}

}  // namespace

Steps::Steps()
    : local_rows(zigzag_rows),
      local_targets(shift_then_split),
      chunks(all_chunks),
      reduce_max(all_reduce_max),
      reduce_sum(all_reduce_sum),
      reduce_target(all_reduce_sum),
      gather_order(rows_rank_by_rank),
      loss_share(one_of_cp),
      add_gathered_gradients(all_reduce_sum),
      token_terms(apply_objective) {}

std::int64_t row_logprobs(const Steps& steps, Communicator& tp, const LogitsRows& rows,
                          std::span<float> max, std::span<float> sum, std::span<float> logprobs) {
  steps.max(rows, max.data());
  steps.reduce_max(tp, max);
  steps.sum_exp(rows, max.data(), sum.data());
  steps.reduce_sum(tp, sum);
  const std::int64_t owned = steps.target(rows, max.data(), logprobs.data());
  steps.reduce_target(tp, logprobs);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    logprobs[r] = rows.targets[r] < 0 ? 0.0f : logprobs[r] - std::log(sum[r]);
  }
  return owned;
}

}  // namespace lossgrid
