// SPDX-License-Identifier: Apache-2.0
// Mutants from hidden states: chunks that are lost or read from the wrong place, gradients that are
// not reduced or not accumulated, vocab shards of another rank; and controls that accumulate in
// another order.
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

/// Returns floor(rows / chunk) chunks.
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

/// Sets source[k] to map(row) for the rows of the chunk.
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

/// Reads the first part of the rows, as if they were split over TP although every rank has all.
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

/// Recomputes maximum and sum in the backward pass without the reduction over TP.
void gradient_of_own_shard(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, void* out) {
  std::vector<float> shift(static_cast<std::size_t>(rows.rows));
  std::vector<float> sum(shift.size());
  std::vector<float> target(shift.size());
  rows_statistics(rows, {shift.data(), sum.data(), target.data()});
  RowSoftmax own = softmax;
  own.shift = shift.data();
  own.sum = sum.data();
  rows_gradient(rows, own, gradients, out);
}

/// Rounds the gradient to bf16, also where its product is one of float32 factors.
void rounded_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                      const RowGradients& gradients, void* out) {
  rows_gradient(rows, softmax, gradients, out);
  const std::span<float> elements(static_cast<float*>(out),
                                  static_cast<std::size_t>(rows.rows * rows.shard.width));
  for (float& element : elements) element = static_cast<float>(bf16(element));
}

/// Takes part in the reduction and keeps the own part.
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

/// Sets every element of the product's target to f(element so far, element of `added` [m, n]).
template <typename F>
void combine(Device& device, const Gemm& product, const float* added, F&& f) {
  const HostView values(device, added,
                        static_cast<std::size_t>(product.m * product.n) * sizeof(float));
  const HostView sums(
      device, product.c,
      static_cast<std::size_t>((product.m - 1) * product.stride + product.n) * sizeof(float));
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      float& sum = sums.as<float>()[static_cast<std::size_t>(i * product.stride + j)];
      sum = f(product.accumulate ? sum : 0.0f,
              values.as<float>()[static_cast<std::size_t>(i * product.n + j)]);
    }
  }
  sums.write_back();
}

/// Returns the product with a target of its own, [m, n] in `memory`.
Gemm apart(const Gemm& product, Staging& memory) {
  Gemm alone = product;
  alone.c = reinterpret_cast<float*>(
      memory.at_least(static_cast<std::size_t>(product.m * product.n) * sizeof(float)));
  alone.stride = product.n;
  alone.accumulate = false;
  return alone;
}

/// Combines the target with the product of this chunk.
template <typename F>
void with_product(Device& device, const Gemm& product, std::span<float> workspace, F&& f) {
  if (product.m == 0 || product.n == 0) return;
  Staging memory(device, MemorySpace::device);
  const Gemm alone = apart(product, memory);
  device.kernels().gemm(alone, workspace);
  combine(device, product, alone.c, f);
}

void add_in_bf16(Device& device, const Gemm& product, std::span<float> workspace) {
  with_product(device, product, workspace, [](float sum, float chunk) {
    return static_cast<float>(bf16(sum + static_cast<float>(bf16(chunk))));
  });
}

/// Returns `matrix` from row or column `begin` of the dimension that a product adds up over.
Matrix from_term(Matrix matrix, bool terms_are_rows, std::int64_t begin) {
  const std::int64_t step = terms_are_rows == matrix.transposed ? 1 : matrix.stride;
  matrix.data = static_cast<const std::byte*>(matrix.data) +
                static_cast<std::size_t>(begin * step) * size_of(matrix.dtype);
  return matrix;
}

/// Adds the product up in parts, rounded to bf16 with each, and adds that sum.
template <std::int64_t parts>
void add_parts_in_bf16(Device& device, const Gemm& product, std::span<float> workspace) {
  if (product.m == 0 || product.n == 0) return;
  Staging memory(device, MemorySpace::device);
  Gemm part = apart(product, memory);
  for (std::int64_t k = 0; k < parts; ++k) {
    const std::int64_t begin = product.k * k / parts;
    part.k = product.k * (k + 1) / parts - begin;
    if (part.k == 0) continue;
    part.a = from_term(product.a, false, begin);
    part.b = from_term(product.b, true, begin);
    part.accumulate = begin > 0;
    add_in_bf16(device, part, workspace);
  }
  combine(device, product, part.c, [](float sum, float all) { return sum + all; });
}

/// Rounds the product to bf16 once and adds it.
void add_rounded_product(Device& device, const Gemm& product, std::span<float> workspace) {
  with_product(device, product, workspace,
               [](float sum, float all) { return sum + static_cast<float>(bf16(all)); });
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

/// Rolls targets along the whole pack: the last row of a sequence predicts the first token of the
/// next one, and counts if that token's mask is set.
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

void declare_rounded_weight(ImplementationTraits& traits) {
  traits.rounds_grad_weight = true;
}

const ImplementationOptions kSmallChunks{{"chunk_tokens", "3"}};

const RegisteredMutant linear_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M38",
        .name = "linear_chunk_tail_dropped",
        .what = "floor instead of ceil chunks",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.chunks = whole_chunks_only; },
        .options = kSmallChunks,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "linear_last_chunk_dropped",
        .what = "the last chunk is never computed",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.chunks = all_but_the_last; },
        .options = kSmallChunks,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "linear_chunk_offset_twice",
        .what = "hidden states read at twice the offset",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.chunk_source = offset_twice; },
        .options = kSmallChunks,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M39",
        .name = "linear_stale_statistics",
        .what = "the backward pass makes shift and sum again without TP",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_of_own_shard>; },
        .options = kSmallChunks,
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M40",
        .name = "linear_weight_grad_in_bf16",
        .what = "d weight added up over chunks in bf16",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.add_grad_weight = add_in_bf16; },
        .options = kSmallChunks,
        .seen_in = "axolotl #1601, Liger-Kernel #512, #1391, Megatron-LM #2739",
        .rejected_by = "grad_weight",
    }),
    RegisteredMutant({
        .catalogue_id = "M69",
        .name = "linear_weight_grad_parts_in_bf16",
        .what = "d weight added up over eight parts in bf16, declared to be rounded once",
        .strategy = "linear_materialized",
        .change =
            [](Steps& s) {
              s.gradient = gradient_on_host<rounded_gradient>;
              s.add_grad_weight = add_parts_in_bf16<8>;
            },
        .runs_on = [](const LossProblem& problem) { return problem.dtype == DType::bf16; },
        .declare = declare_rounded_weight,
        .declares_grad_logits = true,
        .seen_in = "verl 0.9.1, fused linear; Liger-Kernel 0.8.5, fused linear GRPO",
        .rejected_by = "grad_weight",
    }),
    RegisteredMutant({
        .catalogue_id = "M41",
        .name = "linear_hidden_grad_not_reduced",
        .what = "d hidden of the own vocab shard only",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.reduce_grad_hidden = not_reduced; },
        .seen_in = "Cut Cross Entropy #42, SkyRL #1886",
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M42",
        .name = "linear_sp_gather_missing",
        .what = "the own rows in place of those of all TP ranks",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.chunk_source = own_part_for_all; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M42",
        .name = "linear_gathered_without_sp",
        .what = "replicated rows gathered over TP as if they were split",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.chunk_source = gathered_without_sp; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "linear_sp_order_reversed",
        .what = "TP ranks' rows in reverse order",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.chunk_source = parts_reversed; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M43",
        .name = "linear_rolled_over_the_pack",
        .what = "targets rolled over the pack, boundaries counted",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.shift = rolled_over_the_pack; },
        .seen_in = "verl #6475",
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .name = "linear_weight_of_neighbour",
        .what = "the vocab shard of the next TP rank",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.shard_vocab = of_the_neighbour; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "linear_weight_grad_overwritten",
        .what = "d weight of the last chunk in place of the sum",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.add_grad_weight = overwrite; },
        .options = kSmallChunks,
        .rejected_by = "grad_weight",
    }),
    RegisteredMutant({
        .name = "linear_weight_grad_without_temperature",
        .what = "d weight not divided by the temperature",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.add_grad_weight = without_temperature; },
        .rejected_by = "grad_weight",
    }),
};

const RegisteredControl linear_controls[] = {
    RegisteredControl({
        .name = "linear_last_chunk_first",
        .what = "chunks in reverse order",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.chunks = last_chunk_first; },
        .options = kSmallChunks,
    }),
    RegisteredControl({
        .name = "linear_added_apart",
        .what = "d weight of a chunk made apart, then added",
        .strategy = "linear_ce_onepass",
        .change =
            [](Steps& s) {
              s.add_grad_weight = [](Device& device, const Gemm& product,
                                     std::span<float> workspace) {
                with_product(device, product, workspace,
                             [](float sum, float chunk) { return sum + chunk; });
              };
            },
        .options = kSmallChunks,
    }),
    RegisteredControl({
        .name = "linear_weight_grad_rounded_once",
        .what = "d weight and d bias rounded to bf16 once, as declared",
        .strategy = "linear_materialized",
        .change =
            [](Steps& s) {
              s.add_grad_weight = add_rounded_product;
              s.add_grad_bias = [](const RankContext& context, const Gemm& product,
                                   std::span<float> workspace) {
                add_rounded_product(context.device, product, workspace);
              };
            },
        .runs_on = [](const LossProblem& problem) { return problem.dtype == DType::bf16; },
        .declare = declare_rounded_weight,
    }),
};

}  // namespace
}  // namespace lossgrid
