// SPDX-License-Identifier: Apache-2.0
#include "impls/shard_statistics.h"

#include <cmath>

namespace lossgrid {
namespace {

std::int64_t range_width(const LossProblem& problem) {
  return problem.row_statistics() ? 2 : 1;
}

std::int64_t sums_width(const LossProblem& problem) {
  return problem.row_statistics() ? 3 : 2;
}

}  // namespace

ShardStatistics::ShardStatistics(Device& device, const LossProblem& problem, std::int64_t capacity)
    : all_(problem.row_statistics()),
      range_width_(range_width(problem)),
      sums_width_(sums_width(problem)),
      own_shift_(device, capacity, "statistics"),
      range_(device, range_width_ * capacity, "statistics"),
      sums_(device, sums_width_ * capacity, "statistics") {}

std::int64_t ShardStatistics::bytes(const LossProblem& problem, std::int64_t capacity) {
  return kFloatBytes * capacity * (1 + range_width(problem) + sums_width(problem));
}

void ShardStatistics::add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                                 Exchange exchange, CollectiveCounts& tp) {
  const std::int64_t columns = range_width(problem) + sums_width(problem);
  tp.add(Collective::all_reduce, (exchange == Exchange::two ? 2 : 3) * times,
         kFloatBytes * rows * columns);
}

RowStatistics ShardStatistics::own(std::int64_t begin) {
  RowStatistics out{range(0).data() + begin, sums(1).data() + begin, sums(0).data() + begin};
  if (all_) {
    out.weighted = sums(2).data() + begin;
    out.min = range(1).data() + begin;
  }
  return out;
}

std::int64_t ShardStatistics::add(const Steps& steps, const LogitsRows& logits,
                                  std::int64_t begin) {
  const RowStatistics out = own(begin);
  const std::int64_t owned = steps.statistics(logits, out);
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    own_shift_[at_ + begin + r] = out.shift[r];
    if (all_) out.min[r] = -out.min[r];
  }
  return owned;
}

void ShardStatistics::merge(const Steps& steps, Communicator& tp, const VocabShard& shard,
                            const std::int32_t* targets, Exchange exchange) {
  const std::span<float> shift = range(0);
  const std::span<float> target = sums(0);
  const std::span<float> sum = sums(1);
  steps.reduce_max(tp, columns(range_, range_width_, 0, range_width_));
  for (std::int64_t r = 0; r < rows_; ++r) {
    const float distance = own_shift_[at_ + r] - shift[r];
    if (shard.owns(targets[r])) target[r] += distance;
    if (sum[r] == 0) continue;  // exp(distance) of an empty shard may be infinite
    const float scale = std::exp(distance);
    if (all_) sums(2)[r] = scale * (sums(2)[r] + distance * sum[r]);
    sum[r] *= scale;
  }
  if (exchange == Exchange::two) {
    steps.reduce_sum(tp, columns(sums_, sums_width_, 0, sums_width_));
  } else {
    steps.reduce_sum(tp, columns(sums_, sums_width_, 1, sums_width_ - 1));
    steps.reduce_target(tp, target);
  }
}

void ShardStatistics::write(const Steps& steps, const std::int32_t* targets,
                            const TokenOutputs& out) {
  const std::span<float> target = sums(0);
  const std::span<float> sum = sums(1);
  if (all_) steps.entropy(sum, sums(2), out.entropy);
  for (std::int64_t r = 0; r < rows_; ++r) {
    const bool predicts = targets[r] >= 0;
    out.logprobs[r] = predicts ? target[r] - std::log(sum[r]) : 0.0f;
    if (!all_) continue;
    out.entropy[r] = predicts ? out.entropy[r] : 0.0f;
    out.vocab_min[r] = predicts ? -range(1)[r] : 0.0f;
    out.vocab_max[r] = predicts ? range(0)[r] : 0.0f;
  }
}

std::int64_t ShardStatistics::run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
                                  const TokenOutputs& out, Exchange exchange) {
  const std::int64_t owned = add(steps, logits, 0);
  merge(steps, tp, logits.shard, logits.targets, exchange);
  write(steps, logits.targets, out);
  return owned;
}

}  // namespace lossgrid
