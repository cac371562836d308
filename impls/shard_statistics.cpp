// SPDX-License-Identifier: Apache-2.0
#include "impls/shard_statistics.h"

#include <algorithm>
#include <cmath>

namespace lossgrid {
namespace {

std::int64_t width_of(const LossProblem& problem) {
  return problem.row_statistics() ? 5 : 3;
}

std::int64_t gathered_floats(const LossProblem& problem, std::int64_t capacity, Exchange exchange) {
  const bool gathers = exchange == Exchange::one && problem.grid.tp > 1;
  return gathers ? problem.grid.tp * width_of(problem) * capacity : 0;
}

std::int64_t own_shift_floats(std::int64_t capacity, Exchange exchange) {
  return exchange == Exchange::three ? capacity : 0;
}

}  // namespace

ShardStatistics::ShardStatistics(Device& device, const LossProblem& problem, const Steps& steps,
                                 std::int64_t capacity, Exchange exchange)
    : device_(device),
      all_(problem.row_statistics()),
      width_(width_of(problem)),
      exchange_(exchange),
      columns_(device, width_ * capacity, "statistics"),
      gathered_(device, gathered_floats(problem, capacity, exchange), "statistics_gathered"),
      own_shift_(device, own_shift_floats(capacity, exchange), "statistics") {
  for (int rank = 0; rank < problem.grid.tp; ++rank) {
    shards_.push_back(steps.shard_vocab(problem.vocab, problem.grid.tp, rank));
  }
}

std::int64_t ShardStatistics::bytes(const LossProblem& problem, std::int64_t capacity,
                                    Exchange exchange) {
  return kFloatBytes *
         (width_of(problem) * capacity + gathered_floats(problem, capacity, exchange) +
          own_shift_floats(capacity, exchange));
}

void ShardStatistics::add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                                 Exchange exchange, CollectiveCounts& tp) {
  const std::int64_t payload = kFloatBytes * rows * width_of(problem);
  if (exchange == Exchange::three) {
    tp.add(Collective::all_reduce, 3 * times, payload);
  } else if (problem.grid.tp > 1) {
    tp.add(Collective::all_gather, times, payload);
  }
}

RowStatistics ShardStatistics::own(std::int64_t begin) {
  RowStatistics out{column(kShift).data() + begin, column(kSum).data() + begin,
                    column(kTarget).data() + begin};
  if (all_) {
    out.weighted = column(kWeighted).data() + begin;
    out.min = column(kNegatedMin).data() + begin;
  }
  return out;
}

std::int64_t ShardStatistics::add(const Steps& steps, const LogitsRows& logits,
                                  std::int64_t begin) {
  return steps.statistics(logits, own(begin));
}

void ShardStatistics::merge(const Steps& steps, Communicator& tp, const std::int32_t* targets) {
  device_.synchronise();
  if (all_) {
    for (float& min : column(kNegatedMin)) min = -min;
  }
  if (exchange_ == Exchange::three) {
    reduce_one_by_one(steps, tp, targets);
  } else if (shards_.size() > 1) {
    merge_gathered(steps, tp, targets);
  }
}

void ShardStatistics::merge_gathered(const Steps& steps, Communicator& tp,
                                     const std::int32_t* targets) {
  const std::int64_t block = width_ * rows_;
  const auto ranks = static_cast<std::int64_t>(shards_.size());
  const std::span<float> received = gathered_.span(0, ranks * block);
  steps.gather_statistics(tp, rows_, all_columns(), received);
  const auto of = [&](std::int64_t rank, Column which, std::int64_t r) {
    return received[static_cast<std::size_t>(rank * block + place(which) * rows_ + r)];
  };
  const std::span<float> shifts = column(kShift);
  const std::span<float> sums = column(kSum);
  const std::span<float> of_targets = column(kTarget);
  for (std::int64_t r = 0; r < rows_; ++r) {
    float shift = of(0, kShift, r);
    for (std::int64_t k = 1; k < ranks; ++k) shift = std::max(shift, of(k, kShift, r));
    float sum = 0;
    float weighted = 0;
    float target = 0;
    for (std::int64_t k = 0; k < ranks; ++k) {
      const float distance = of(k, kShift, r) - shift;
      if (shards_[k].owns(targets[r])) target = of(k, kTarget, r) + distance;
      const float own = of(k, kSum, r);
      if (own == 0) continue;  // exp(distance) of an empty shard may be infinite
      const float scale = std::exp(distance);
      sum += scale * own;
      if (all_) weighted += scale * (of(k, kWeighted, r) + distance * own);
    }
    shifts[r] = shift;
    sums[r] = sum;
    of_targets[r] = target;
    if (!all_) continue;
    column(kWeighted)[r] = weighted;
    float least = of(0, kNegatedMin, r);
    for (std::int64_t k = 1; k < ranks; ++k) least = std::max(least, of(k, kNegatedMin, r));
    column(kNegatedMin)[r] = least;
  }
}

void ShardStatistics::reduce_one_by_one(const Steps& steps, Communicator& tp,
                                        const std::int32_t* targets) {
  const std::span<float> shift = column(kShift);
  const std::span<float> target = column(kTarget);
  const std::span<float> sum = column(kSum);
  const VocabShard& shard = shards_[static_cast<std::size_t>(tp.rank())];
  const std::span<float> own = own_shift_.span(at_, rows_);
  std::copy(shift.begin(), shift.end(), own.begin());
  steps.reduce_max(tp, all_ ? columns(kNegatedMin, kShift) : shift);
  for (std::int64_t r = 0; r < rows_; ++r) {
    const float distance = own[r] - shift[r];
    if (shard.owns(targets[r])) target[r] += distance;
    if (sum[r] == 0) continue;  // exp(distance) of an empty shard may be infinite
    const float scale = std::exp(distance);
    if (all_) column(kWeighted)[r] = scale * (column(kWeighted)[r] + distance * sum[r]);
    sum[r] *= scale;
  }
  steps.reduce_sum(tp, all_ ? columns(kSum, kWeighted) : sum);
  steps.reduce_target(tp, target);
}

void ShardStatistics::write(const Steps& steps, const std::int32_t* targets,
                            const TokenOutputs& out) {
  device_.synchronise();
  const std::span<float> target = column(kTarget);
  const std::span<float> sum = column(kSum);
  if (all_) steps.entropy(sum, column(kWeighted), out.entropy);
  for (std::int64_t r = 0; r < rows_; ++r) {
    const bool predicts = targets[r] >= 0;
    out.logprobs[r] = predicts ? target[r] - std::log(sum[r]) : 0.0f;
    if (!all_) continue;
    out.entropy[r] = predicts ? out.entropy[r] : 0.0f;
    out.vocab_min[r] = predicts ? -column(kNegatedMin)[r] : 0.0f;
    out.vocab_max[r] = predicts ? column(kShift)[r] : 0.0f;
  }
}

std::int64_t ShardStatistics::run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
                                  const TokenOutputs& out) {
  const std::int64_t owned = add(steps, logits, 0);
  merge(steps, tp, logits.targets);
  write(steps, logits.targets, out);
  return owned;
}

}  // namespace lossgrid
