// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/shard_statistics.h"

#include "harness/device/kernel/items.h"
#include "impls/kernels/row_positions.h"

namespace lossgrid {
namespace {

StatisticsKinds statistics_kinds(const LossProblem& problem) {
  StatisticsKinds kinds;
  for (const RowTerm term : kAllRowTerms) {
    if (problem.returns(term)) kinds.add(statistics_of(term));
  }
  return kinds;
}

std::int64_t statistics_width(const LossProblem& problem) {
  return statistics_kinds(problem).width();
}

std::int64_t gathered_floats(const LossProblem& problem, std::int64_t capacity, Exchange exchange) {
  const int ranks = problem.vocab_ranks();
  const bool gathers = exchange == Exchange::one && ranks > 1;
  return gathers ? ranks * statistics_width(problem) * capacity : 0;
}

/// True if statistics of several shards are merged. Three all-reduces are always made, except for a
/// head that every rank has.
bool merges(std::int64_t vocab, std::int64_t ranks, Exchange exchange) {
  return exchange == Exchange::one ? ranks > 1 : vocab > 1;
}

std::int64_t own_shift_floats(std::int64_t capacity, Exchange exchange) {
  return exchange == Exchange::three ? capacity : 0;
}

}  // namespace

ShardStatistics::ShardStatistics(Device& device, const LossProblem& problem, const Steps& steps,
                                 std::int64_t capacity, Exchange exchange)
    : device_(device),
      kinds_(statistics_kinds(problem)),
      zeroes_filtered_(problem.sampling.zeroes_targets),
      vocab_(problem.vocab),
      width_(statistics_width(problem)),
      exchange_(exchange),
      shards_(device, static_cast<std::size_t>(problem.vocab_ranks()), "statistics"),
      columns_(device, width_ * capacity, "statistics"),
      gathered_(device, gathered_floats(problem, capacity, exchange), "statistics_gathered"),
      own_shift_(device, own_shift_floats(capacity, exchange), "statistics"),
      teacher_(device, problem, capacity) {
  for (int rank = 0; rank < problem.vocab_ranks(); ++rank) {
    shards_[static_cast<std::size_t>(rank)] =
        steps.shard_vocab(problem.vocab, problem.grid.tp, rank);
  }
}

std::int64_t ShardStatistics::bytes(const LossProblem& problem, std::int64_t capacity,
                                    Exchange exchange) {
  const std::int64_t floats = statistics_width(problem) * capacity +
                              gathered_floats(problem, capacity, exchange) +
                              own_shift_floats(capacity, exchange);
  return kFloatBytes * floats +
         problem.vocab_ranks() * static_cast<std::int64_t>(sizeof(VocabShard)) +
         TeacherStatistics::bytes(problem, capacity);
}

void ShardStatistics::add_merges(const LossProblem& problem, std::int64_t rows, std::int64_t times,
                                 Exchange exchange, CollectiveCounts& tp) {
  if (!merges(problem.vocab, problem.vocab_ranks(), exchange)) return;
  const std::int64_t payload = kFloatBytes * rows * statistics_width(problem);
  if (exchange == Exchange::three) {
    tp.add(Collective::all_reduce, 3 * times, payload);
  } else {
    tp.add(Collective::all_gather, times, payload);
  }
  TeacherStatistics::add_merges(problem, rows, times, tp);
}

RowStatistics ShardStatistics::own(std::int64_t begin) {
  const StatisticsColumns own = selected();
  RowStatistics out{own.column(Column::kShift) + begin, own.column(Column::kSum) + begin,
                    own.column(Column::kTarget) + begin};
  if (kinds_.all) {
    out.weighted = own.column(Column::kWeighted) + begin;
    out.min = own.column(Column::kMin) + begin;
  }
  if (kinds_.mean) {
    out.total = own.column(Column::kTotal) + begin;
    out.finite = own.column(Column::kFinite) + begin;
  }
  if (kinds_.predictions) {
    out.squares = own.column(Column::kSquares) + begin;
    out.beaten = own.column(Column::kBeaten) + begin;
  }
  return out;
}

std::int64_t ShardStatistics::add(const Steps& steps, const LogitsRows& logits,
                                  std::int64_t begin) {
  return steps.statistics(logits, own(begin));
}

void ShardStatistics::merge(const Steps& steps, Communicator& tp, const RowTargets& targets) {
  if (!merges(vocab_, static_cast<std::int64_t>(shards_.size()), exchange_)) return;
  if (kinds_.all) for_each_item(device_, rows_, NegateMin{selected()});
  if (exchange_ == Exchange::one) {
    merge_gathered(steps, tp, targets);
  } else {
    reduce_one_by_one(steps, tp, targets);
  }
}

void ShardStatistics::merge_gathered(const Steps& steps, Communicator& tp,
                                     const RowTargets& targets) {
  const auto ranks = static_cast<std::int64_t>(shards_.size());
  const std::span<float> received = gathered_.span(0, ranks * width_ * rows_);
  steps.gather_statistics(tp, rows_, all_columns(), received);
  for_each_item(
      device_, rows_,
      MergeRow{
          {received.data(), rows_, kinds_}, shards_.data(), ranks, targets.kernel, selected()});
}

void ShardStatistics::reduce_one_by_one(const Steps& steps, Communicator& tp,
                                        const RowTargets& targets) {
  float* own_shift = own_shift_.data() + at_;
  for_each_item(device_, rows_, ScaleRow{1.0f, selected().column(Column::kShift), own_shift});
  steps.reduce_max(tp, columns(kinds_.all ? Column::kMin : Column::kShift, Column::kShift));
  const VocabShard shard = shards_[static_cast<std::size_t>(tp.rank())];
  for_each_item(device_, rows_, MoveShift{selected(), own_shift, shard, targets.kernel});
  steps.reduce_sum(tp, columns(kinds_.mean ? Column::kTotal : Column::kSum, last_sum()));
  steps.reduce_target(tp, columns(Column::kTarget, Column::kTarget));
}

void ShardStatistics::write(const Steps& steps, const std::int32_t* targets,
                            const TokenOutputs& out) {
  const auto at = [](std::span<float> column) { return column.empty() ? nullptr : column.data(); };
  OutputColumns to{at(out.logprobs)};
  for (const RowTerm term : kAllRowTerms) {
    if (term != RowTerm::divergence) to.terms[term] = at(out.terms[term]);
  }
  steps.write_outputs(
      device_, rows_,
      WriteRow{selected(), targets, to, static_cast<float>(vocab_), zeroes_filtered_});
  teacher_.write(at_, rows_, out.terms[RowTerm::divergence].data());
}

RowSoftmax ShardStatistics::softmax() {
  const StatisticsColumns columns = selected();
  RowSoftmax softmax{columns.column(Column::kShift), columns.column(Column::kSum)};
  if (kinds_.all) softmax.weighted = columns.column(Column::kWeighted);
  if (kinds_.mean) softmax.finite = columns.column(Column::kFinite);
  if (zeroes_filtered_) softmax.filtered = columns.column(Column::kTarget);
  teacher_.complete(at_, rows_, softmax);
  return softmax;
}

std::int64_t ShardStatistics::make(const Steps& steps, Communicator& tp, const LogitsRows& logits) {
  const std::int64_t owned = add(steps, logits, 0);
  merge(steps, tp, logits.targets);
  teacher_.run(steps, tp, logits, softmax(), at_);
  return owned;
}

std::int64_t ShardStatistics::run(const Steps& steps, Communicator& tp, const LogitsRows& logits,
                                  const TokenOutputs& out) {
  const std::int64_t owned = make(steps, tp, logits);
  write(steps, logits.targets, out);
  return owned;
}

}  // namespace lossgrid
