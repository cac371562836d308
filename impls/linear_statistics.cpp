// SPDX-License-Identifier: Apache-2.0
#include "impls/linear_statistics.h"

#include <cmath>

namespace lossgrid {
namespace {

std::int64_t range_columns(const LossProblem& problem) {
  return problem.row_statistics() ? 2 : 1;
}

std::int64_t sum_columns(const LossProblem& problem) {
  return problem.row_statistics() ? 3 : 2;
}

}  // namespace

LinearStatistics::LinearStatistics(Device& device, const LossProblem& problem,
                                   std::int64_t capacity)
    : all_(problem.row_statistics()),
      local_max_(device, capacity, "statistics"),
      max_(device, range_columns(problem) * capacity, "statistics"),
      sums_(device, sum_columns(problem) * capacity, "statistics") {}

std::int64_t LinearStatistics::bytes(const LossProblem& problem, std::int64_t rows) {
  return kFloatBytes * rows * (1 + range_columns(problem) + sum_columns(problem));
}

void LinearStatistics::add_reductions(const LossProblem& problem, std::int64_t rows,
                                      std::int64_t times, CollectiveCounts& tp) {
  const std::int64_t columns = range_columns(problem) + sum_columns(problem);
  tp.add(Collective::all_reduce, 2 * times, kFloatBytes * rows * columns);
}

std::int64_t LinearStatistics::add(const Steps& steps, const LogitsRows& logits,
                                   std::int64_t begin) {
  float* own_max = local_max_.data() + begin;
  float* max = max_.data() + begin;
  float* min = all_ ? column(max_, 1).data() + begin : nullptr;
  float* weighted = all_ ? column(sums_, 2).data() + begin : nullptr;
  steps.max(logits, max, min);
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    if (all_) min[r] = -min[r];
    own_max[r] = std::isinf(max[r]) ? 0.0f : max[r];  // an empty shard has no term
  }
  steps.sum_exp(logits, own_max, sums_.data() + begin, weighted);
  return steps.target(logits, own_max, column(sums_, 1).data() + begin);
}

void LinearStatistics::reduce(const Steps& steps, Communicator& tp, const VocabShard& shard,
                              const std::int32_t* targets, const TokenOutputs& out) {
  steps.reduce_max(tp, max_.span(0, (all_ ? 2 : 1) * rows_));
  const std::span<float> sum = column(sums_, 0);
  const std::span<float> target = column(sums_, 1);
  const std::span<float> weighted = all_ ? column(sums_, 2) : std::span<float>();
  for (std::int64_t r = 0; r < rows_; ++r) {
    const float distance = local_max_[r] - max_[r];
    if (shard.owns(targets[r])) target[r] += distance;
    if (sum[r] == 0) continue;  // exp(distance) of an empty shard may be infinite
    const float scale = std::exp(distance);
    if (all_) weighted[r] = scale * (weighted[r] + distance * sum[r]);
    sum[r] *= scale;
  }
  steps.reduce_sum(tp, sums_.span(0, (all_ ? 3 : 2) * rows_));
  if (all_) steps.entropy(sum, weighted, out.entropy);
  for (std::int64_t r = 0; r < rows_; ++r) {
    const bool predicts = targets[r] >= 0;
    out.logprobs[r] = predicts ? target[r] - std::log(sum[r]) : 0.0f;
    if (!all_) continue;
    out.entropy[r] = predicts ? out.entropy[r] : 0.0f;
    out.vocab_min[r] = predicts ? -max_[rows_ + r] : 0.0f;
    out.vocab_max[r] = predicts ? max_[r] : 0.0f;
  }
}

std::int64_t sweep_statistics(const Steps& steps, Communicator& tp, const VocabShard& shard,
                              const RowTable& rows, LinearPass& pass, LinearStatistics& statistics,
                              const TokenOutputs& out) {
  std::int64_t owned = 0;
  statistics.begin(rows.rows());
  for (const RowRange& chunk : pass.chunks()) {
    owned += statistics.add(steps, pass.logits(chunk, LinearPass::Read::predicting), chunk.begin);
  }
  statistics.reduce(steps, tp, shard, rows.targets(), out);
  return owned;
}

}  // namespace lossgrid
