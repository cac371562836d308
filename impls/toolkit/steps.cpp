// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/steps.h"

#include <algorithm>
#include <numeric>

#include "harness/device/kernel/items.h"

namespace lossgrid {
namespace {

std::vector<std::int64_t> own_rows(const PackedBatch& batch, int cp, int cp_rank) {
  return cp_rows(batch, cp, cp_rank);
}

ShiftedBatch shift_then_split(const PackedBatch& batch, const Steps& steps, int cp, int cp_rank) {
  return steps.shift(batch).gather(steps.local_rows(batch, cp, cp_rank));
}

std::vector<RowRange> all_chunks(std::int64_t rows, std::int64_t chunk) {
  std::vector<RowRange> ranges;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    ranges.push_back({begin, std::min(chunk, rows - begin)});
  }
  return ranges;
}

void gather_from_ranks(Communicator& tp, std::int64_t /*rows*/, std::span<const float> own,
                       std::span<float> received) {
  tp.all_gather(own, received);
}

void all_reduce_max(Communicator& tp, std::span<float> values) {
  tp.all_reduce(values, ReduceOp::max);
}

void all_reduce_sum(Communicator& comm, std::span<float> values) {
  comm.all_reduce(values, ReduceOp::sum);
}

void write_rows(Device& device, std::int64_t rows, const WriteRow& write) {
  for_each_item(device, rows, write);
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
                     const PackedBatch& batch, int /*cp*/, SequenceTable<const double> coefficients,
                     ObjectiveTotals<double> totals, const TokenGradients& gradients) {
  objective.token_terms(tokens, batch, coefficients, totals, gradients);
}

void all_reduce_table(Communicator& cp, SequenceTable<double> sums) {
  const auto size = static_cast<std::size_t>(sums.sequences * sums.columns);
  if (size > 0) cp.all_reduce(std::span<double>(sums.data, size), ReduceOp::sum);
}

void all_reduce_selection(Communicator& cp, std::span<double> numbers) {
  cp.all_reduce(numbers, ReduceOp::sum);
}

void all_reduce_totals(Communicator& cp, ObjectiveTotals<double> totals) {
  if (!totals.sums.empty()) cp.all_reduce(totals.sums, ReduceOp::sum);
  if (!totals.maxima.empty()) cp.all_reduce(totals.maxima, ReduceOp::max);
}

ObjectiveResult finish_objective(const Objective& objective, const PackedBatch& batch, int /*cp*/,
                                 SequenceTable<const double> sums,
                                 SequenceTable<const double> coefficients,
                                 ObjectiveTotals<const double> totals) {
  return objective.finish(batch, sums, coefficients, totals);
}

void rows_of_chunk(const LossProblem& /*problem*/, const RowRange& chunk, int /*tp_rank*/,
                   std::span<std::int32_t> source) {
  std::iota(source.begin(), source.end(), static_cast<std::int32_t>(chunk.begin));
}

void sum_over_tp(Device& /*device*/, Communicator& tp, bool sp, std::span<float> partial,
                 std::span<float> own) {
  if (sp) {
    tp.reduce_scatter(std::span<const float>(partial), own, ReduceOp::sum);
  } else {
    tp.all_reduce(partial, ReduceOp::sum);
  }
}

void keep_own_rows(Device& device, Communicator& tp, bool sp, std::span<float> partial,
                   std::span<float> own) {
  if (!sp) return;
  device.copy(own.data(), partial.data() + static_cast<std::size_t>(tp.rank()) * own.size(),
              own.size_bytes());
}

void run_product(Device& device, const Gemm& product, std::span<float> workspace) {
  device.kernels().gemm(product, workspace);
}

void run_product_of_rank(const RankContext& context, const Gemm& product,
                         std::span<float> workspace) {
  run_product(context.device, product, workspace);
}

void own_rows_of_teacher(const LossProblem& problem, const RankContext& context,
                         const RowRange& rows, std::span<std::int32_t> source) {
  rows_of_chunk(problem, rows, context.tp.rank(), source);
}

void run_teacher_product(const LossProblem& /*problem*/, const RankContext& context,
                         const Gemm& product, std::span<float> workspace) {
  run_product(context.device, product, workspace);
}

void make_tails(Device& device, std::int64_t rows, const MakeTail& make) {
  for_each_item(device, rows, make);
}

}  // namespace

Steps::Steps()
    : local_rows(own_rows),
      local_targets(shift_then_split),
      chunks(all_chunks),
      make_tail(make_tails),
      teacher_source(own_rows_of_teacher),
      teacher_product(run_teacher_product),
      gather_statistics(gather_from_ranks),
      reduce_max(all_reduce_max),
      reduce_sum(all_reduce_sum),
      reduce_target(all_reduce_sum),
      write_outputs(write_rows),
      gather_order(rows_rank_by_rank),
      loss_share(one_of_cp),
      add_gathered_gradients(all_reduce_sum),
      token_terms(apply_objective),
      reduce_sequence_sums(all_reduce_table),
      reduce_totals(all_reduce_totals),
      reduce_selection(all_reduce_selection),
      finish(finish_objective),
      chunk_source(rows_of_chunk),
      reduce_grad_hidden(sum_over_tp),
      share_grad_hidden(keep_own_rows),
      add_grad_weight(run_product),
      write_bias(run_product_of_rank),
      add_grad_bias(run_product_of_rank) {}

}  // namespace lossgrid
