// SPDX-License-Identifier: Apache-2.0
// Wrong ways from hidden states to a loss: chunks that are lost or read from the wrong place,
// gradients that are not reduced or not added up, and weights of somebody else; and right ways that
// add up in another order.
#include <algorithm>

#include "harness/core/error.h"
#include "harness/device/memory/staging.h"
#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

std::vector<RowRange> chunks_of(std::int64_t rows, std::int64_t chunk) {
  return Steps().chunks(rows, chunk);
}

/// floor(rows / chunk) chunks.
std::vector<RowRange> whole_chunks_only(std::int64_t rows, std::int64_t chunk) {
  std::vector<RowRange> ranges = chunks_of(rows, chunk);
  if (!ranges.empty() && ranges.back().count < chunk) ranges.pop_back();
  return ranges;
}

std::vector<RowRange> all_but_the_last(std::int64_t rows, std::int64_t chunk) {
  std::vector<RowRange> ranges = chunks_of(rows, chunk);
  if (!ranges.empty()) ranges.pop_back();
  return ranges;
}

std::vector<RowRange> last_chunk_first(std::int64_t rows, std::int64_t chunk) {
  std::vector<RowRange> ranges = chunks_of(rows, chunk);
  std::reverse(ranges.begin(), ranges.end());
  return ranges;
}

/// source[k] := map(row) for the rows of the chunk.
template <typename Map>
void map_rows(const RowRange& chunk, std::span<std::int32_t> source, Map&& map) {
  for (std::size_t k = 0; k < source.size(); ++k) {
    source[k] = static_cast<std::int32_t>(map(chunk.begin + static_cast<std::int64_t>(k)));
  }
}

void offset_twice(const LossProblem& problem, const RowRange& chunk, int /*tp_rank*/,
                  std::span<std::int32_t> source) {
  map_rows(chunk, source,
           [&](std::int64_t row) { return (row + chunk.begin) % problem.local_rows(); });
}

void own_part_for_all(const LossProblem& problem, const RowRange& chunk, int tp_rank,
                      std::span<std::int32_t> source) {
  const std::int64_t part = problem.hidden_rows();
  const std::int64_t own = problem.grid.sp ? tp_rank : 0;
  map_rows(chunk, source, [&](std::int64_t row) { return own * part + row % part; });
}

/// As if the rows were split over TP although every rank has all of them: the first part of each.
void gathered_without_sp(const LossProblem& problem, const RowRange& chunk, int /*tp_rank*/,
                         std::span<std::int32_t> source) {
  const std::int64_t part = problem.grid.sp
                                ? problem.local_rows()
                                : (problem.local_rows() + problem.grid.tp - 1) / problem.grid.tp;
  map_rows(chunk, source, [&](std::int64_t row) { return row % part; });
}

void parts_reversed(const LossProblem& problem, const RowRange& chunk, int /*tp_rank*/,
                    std::span<std::int32_t> source) {
  const std::int64_t part = problem.hidden_rows();
  const std::int64_t parts = problem.grid.row_parts();
  map_rows(chunk, source,
           [&](std::int64_t row) { return (parts - 1 - row / part) * part + row % part; });
}

/// The backward pass makes shift and sum again and forgets that TP shares the vocabulary.
void gradient_of_own_shard(const LogitsRows& rows, const float*, const float*, const float* grad,
                           void* out) {
  std::vector<float> shift(static_cast<std::size_t>(rows.rows));
  std::vector<float> sum(shift.size());
  std::vector<float> target(shift.size());
  rows_statistics(rows, {shift.data(), sum.data(), target.data()});
  rows_gradient(rows, shift.data(), sum.data(), grad, out);
}

/// Communicates as it should and keeps its own part.
void not_reduced(Device& device, Communicator& tp, bool sp, std::span<float> partial,
                 std::span<float> own) {
  Staging sums(device, MemorySpace::device);
  device.copy(sums.at_least(partial.size_bytes()), partial.data(), partial.size_bytes());
  const std::span<float> copy(reinterpret_cast<float*>(sums.at_least(0)), partial.size());
  Steps().reduce_grad_hidden(device, tp, sp, copy, own);
  if (!sp) return;
  const std::span<float> mine =
      partial.subspan(static_cast<std::size_t>(tp.rank()) * own.size(), own.size());
  device.copy(own.data(), mine.data(), mine.size_bytes());
}

/// Calls f(gradient so far, product of this chunk) for every element.
template <typename F>
void with_product(Device& device, const Gemm& product, std::span<float> workspace, F&& f) {
  if (product.m == 0 || product.n == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(product.m * product.n) * sizeof(float);
  Staging chunk(device, MemorySpace::device);
  Gemm alone = product;
  alone.c = reinterpret_cast<float*>(chunk.at_least(bytes));
  alone.stride = product.n;
  alone.accumulate = false;
  device.kernels().gemm(alone, workspace);
  const HostView added(device, alone.c, bytes);
  const HostView sums(
      device, product.c,
      static_cast<std::size_t>((product.m - 1) * product.stride + product.n) * sizeof(float));
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      float& sum = sums.as<float>()[static_cast<std::size_t>(i * product.stride + j)];
      sum = f(product.accumulate ? sum : 0.0f,
              added.as<float>()[static_cast<std::size_t>(i * product.n + j)]);
    }
  }
  sums.write_back();
}

void add_in_bf16(Device& device, const Gemm& product, std::span<float> workspace) {
  with_product(device, product, workspace, [](float sum, float chunk) {
    return static_cast<float>(bf16(sum + static_cast<float>(bf16(chunk))));
  });
}

void overwrite(Device& device, const Gemm& product, std::span<float> workspace) {
  Gemm alone = product;
  alone.accumulate = false;
  device.kernels().gemm(alone, workspace);
}

void without_temperature(Device& device, const Gemm& product, std::span<float> workspace) {
  Gemm alone = product;
  alone.alpha = 1;
  device.kernels().gemm(alone, workspace);
}

VocabShard of_the_neighbour(std::int64_t vocab, int tp, int tp_rank) {
  return vocab_shard(vocab, tp, (tp_rank + 1) % tp);
}

/// Targets rolled along the whole pack: the last row of a sequence predicts the first token of the
/// next one, and counts where that token's mask is set.
ShiftedBatch rolled_over_the_pack(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  for (std::int64_t i = 0; i + 1 < batch.sequences(); ++i) {
    const std::int64_t next = batch.cu_seqlens[i + 1];
    if (batch.length(i) == 0 || batch.length(i + 1) == 0) continue;
    const std::int64_t last = batch.cu_seqlens_padded[i] + batch.length(i) - 1;
    rows.targets[last] = batch.input_ids[next];
    rows.valid[last] = batch.token_mask[next] != 0 && batch.sample_mask[i] != 0 ? 1 : 0;
  }
  return rows;
}

const ImplementationOptions kSmallChunks{{"chunk_tokens", "3"}};

const RegisteredMutant mutants[] = {
    RegisteredMutant({"M38", "linear_chunk_tail_dropped", "floor instead of ceil chunks",
                      "linear_ce", [](Steps& s) { s.chunks = whole_chunks_only; }, kSmallChunks}),
    RegisteredMutant({"", "linear_last_chunk_dropped", "the last chunk is never computed",
                      "linear_ce_onepass", [](Steps& s) { s.chunks = all_but_the_last; },
                      kSmallChunks}),
    RegisteredMutant({"", "linear_chunk_offset_twice", "hidden states read at twice the offset",
                      "linear_ce", [](Steps& s) { s.chunk_source = offset_twice; }, kSmallChunks}),
    RegisteredMutant({"M39", "linear_stale_statistics",
                      "the backward pass makes shift and sum again without TP", "linear_ce",
                      [](Steps& s) { s.gradient = gradient_on_host<gradient_of_own_shard>; },
                      kSmallChunks}),
    RegisteredMutant({"M40", "linear_weight_grad_in_bf16", "d weight added up over chunks in bf16",
                      "linear_ce", [](Steps& s) { s.add_grad_weight = add_in_bf16; },
                      kSmallChunks}),
    RegisteredMutant({"M41", "linear_hidden_grad_not_reduced",
                      "d hidden of the own vocab shard only", "linear_ce",
                      [](Steps& s) { s.reduce_grad_hidden = not_reduced; }}),
    RegisteredMutant({"M42", "linear_sp_gather_missing",
                      "the own rows in place of those of all TP ranks", "linear_ce",
                      [](Steps& s) { s.chunk_source = own_part_for_all; }}),
    RegisteredMutant({"M42", "linear_gathered_without_sp",
                      "replicated rows gathered over TP as if they were split", "linear_ce_onepass",
                      [](Steps& s) { s.chunk_source = gathered_without_sp; }}),
    RegisteredMutant({"", "linear_sp_order_reversed", "TP ranks' rows in reverse order",
                      "linear_ce", [](Steps& s) { s.chunk_source = parts_reversed; }}),
    RegisteredMutant({"M43", "linear_rolled_over_the_pack",
                      "targets rolled over the pack, boundaries counted", "linear_ce",
                      [](Steps& s) { s.shift = rolled_over_the_pack; }}),
    RegisteredMutant({"", "linear_weight_of_neighbour", "the vocab shard of the next TP rank",
                      "linear_ce", [](Steps& s) { s.shard_vocab = of_the_neighbour; }}),
    RegisteredMutant({"", "linear_weight_grad_overwritten",
                      "d weight of the last chunk in place of the sum", "linear_ce",
                      [](Steps& s) { s.add_grad_weight = overwrite; }, kSmallChunks}),
    RegisteredMutant({"", "linear_weight_grad_without_temperature",
                      "d weight not divided by the temperature", "linear_ce_onepass",
                      [](Steps& s) { s.add_grad_weight = without_temperature; }}),
};

const RegisteredControl controls[] = {
    RegisteredControl({"", "linear_last_chunk_first", "chunks in reverse order", "linear_ce",
                       [](Steps& s) { s.chunks = last_chunk_first; }, kSmallChunks}),
    RegisteredControl({"", "linear_added_apart", "d weight of a chunk made apart, then added",
                       "linear_ce_onepass",
                       [](Steps& s) {
                         s.add_grad_weight = [](Device& device, const Gemm& product,
                                                std::span<float> workspace) {
                           with_product(device, product, workspace,
                                        [](float sum, float chunk) { return sum + chunk; });
                         };
                       },
                       kSmallChunks}),
};

}  // namespace
}  // namespace lossgrid
