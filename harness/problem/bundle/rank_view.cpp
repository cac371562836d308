// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/rank_view.h"

#include <algorithm>
#include <limits>

#include "harness/problem/batch/sharding.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/bundle/bundle_metadata.h"
#include "harness/problem/bundle/bundle_tensors.h"

namespace lossgrid {
namespace {

constexpr std::string_view kFileSuffix = ".safetensors";
constexpr std::int64_t kIgnored = -100;  // label of rows without a trained token, as in PyTorch

/// One rank and its part of the batch.
struct HeldByRank {
  const Problem& problem;  // no row with a token is poisoned
  const Grid& grid;
  int rank;
  PackedBatch batch;
  std::vector<std::int64_t> positions;  // [T_c] rows of the padded pack
  std::vector<std::uint8_t> real;       // [T_c] 1: row with a token
  VocabShard shard;
};

/// Makes a tensor [rows, columns] of the problem's dtype, filled by `fill(data)`, then by
/// pad(k, row) for each row.
template <typename Fill, typename Pad>
TensorToWrite matrix(const std::string& name, std::int64_t rows, std::int64_t columns, DType dtype,
                     const Fill& fill, const Pad& pad) {
  TensorToWrite tensor{name, std::string(tensor_dtype(dtype)), {rows, columns}, {}};
  dispatch_floating(dtype, [&](auto element) {
    using T = decltype(element);
    std::vector<T> values(static_cast<std::size_t>(rows * columns));
    fill(values.data());
    for (std::int64_t k = 0; k < rows; ++k)
      pad(k, std::span<T>(values).subspan(k * columns, columns));
    tensor.data.resize(values.size() * sizeof(T));
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  });
  return tensor;
}

template <typename T>
void fill_row(std::span<T> row, float value) {
  std::fill(row.begin(), row.end(), T(value));
}

TensorToWrite logits_view(const HeldByRank& held) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  const auto fill = [&](void* out) {
    fill_logits_shard(held.problem, held.grid, held.grid.tp_rank(held.rank),
                      held.grid.cp_rank(held.rank), out);
  };
  const auto pad = [&](std::int64_t k, auto row) {
    if (held.real[k] == 0) fill_row(row, 0);
    fill_row(row.subspan(held.shard.valid()), kNothing);
  };
  return matrix("logits", static_cast<std::int64_t>(held.positions.size()), held.shard.width,
                held.problem.spec.dtype, fill, pad);
}

TensorToWrite hidden_view(const HeldByRank& held) {
  const Grid& grid = held.grid;
  const auto rows = static_cast<std::int64_t>(held.positions.size()) / grid.row_parts();
  const std::int64_t first = grid.sp ? rows * grid.tp_rank(held.rank) : 0;
  const auto fill = [&](void* out) {
    fill_hidden_shard(held.problem, grid, grid.tp_rank(held.rank), grid.cp_rank(held.rank), out);
  };
  const auto pad = [&](std::int64_t k, auto row) {
    if (held.real[first + k] == 0) fill_row(row, 0);
  };
  return matrix("hidden", rows, held.problem.spec.hidden, held.problem.spec.dtype, fill, pad);
}

TensorToWrite weight_view(const HeldByRank& held) {
  const auto fill = [&](void* out) {
    fill_weight_shard(held.problem, held.grid, held.grid.tp_rank(held.rank), out);
  };
  const auto pad = [&](std::int64_t column, auto row) {
    if (column >= held.shard.valid()) fill_row(row, 0);
  };
  return matrix("weight", held.shard.width, held.problem.spec.hidden, held.problem.spec.dtype, fill,
                pad);
}

TensorToWrite bias_view(const HeldByRank& held) {
  const auto fill = [&](void* out) {
    fill_bias_shard(held.problem, held.grid, held.grid.tp_rank(held.rank), out);
  };
  const auto pad = [&](std::int64_t /*row*/, auto columns) {
    fill_row(columns.subspan(held.shard.valid()), 0);
  };
  TensorToWrite tensor = matrix("bias", 1, held.shard.width, held.problem.spec.dtype, fill, pad);
  tensor.shape = {held.shard.width};
  return tensor;
}

std::vector<TensorToWrite> view_tensors(const HeldByRank& held) {
  const auto rows = static_cast<std::int64_t>(held.positions.size());
  const std::int64_t sequences = held.batch.sequences();
  const ShiftedBatch shifted = shift_targets(held.batch).gather(held.positions);
  std::vector<std::int64_t> labels(shifted.targets.begin(), shifted.targets.end());
  for (std::size_t k = 0; k < labels.size(); ++k) {
    if (shifted.valid[k] == 0) labels[k] = kIgnored;
  }
  std::vector<TensorToWrite> tensors{
      make_tensor<std::int64_t>("positions", {rows}, held.positions),
      make_tensor<std::int64_t>("labels", {rows}, labels),
      make_tensor<float>("mask", {rows}, shifted.valid),
      make_tensor<std::int32_t>("cu_seqlens", {sequences + 1}, held.batch.cu_seqlens),
      make_tensor<std::int32_t>("cu_seqlens_padded", {sequences + 1}, held.batch.cu_seqlens_padded),
      make_tensor<float>("sample_mask", {sequences}, held.batch.sample_mask)};
  if (held.problem.projection == nullptr) {
    tensors.push_back(logits_view(held));
  } else {
    tensors.push_back(hidden_view(held));
    tensors.push_back(weight_view(held));
    if (held.problem.projection->has_bias) tensors.push_back(bias_view(held));
  }
  for (int k = 0; k < kTokenInputs; ++k) {
    std::vector<float> values = shifted.inputs[k];
    if (held.problem.inputs[k].empty()) continue;
    for (std::size_t row = 0; row < values.size(); ++row) {
      if (shifted.valid[row] == 0) values[row] = 0;  // value is poison in a case
    }
    tensors.push_back(
        make_tensor<float>(std::string(name(static_cast<TokenInput>(k))), {rows}, values));
  }
  if (!held.batch.rewards.empty()) {
    std::vector<float> rewards = held.batch.rewards;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      if (held.batch.sample_mask[i] == 0) rewards[i] = 0;
    }
    tensors.push_back(make_tensor<float>("rewards", {sequences}, rewards));
  }
  if (!held.batch.group_tokens.empty()) {
    tensors.push_back(
        make_tensor<std::int64_t>("group_tokens", {sequences}, held.batch.group_tokens));
  }
  return tensors;
}

}  // namespace

std::string rank_view_path(const std::string& bundle, int rank) {
  const bool has_suffix = bundle.ends_with(kFileSuffix);
  const std::string stem =
      has_suffix ? bundle.substr(0, bundle.size() - kFileSuffix.size()) : bundle;
  return stem + ".rank" + std::to_string(rank) + std::string(kFileSuffix);
}

void write_rank_view(const std::string& path, const Problem& problem, const Grid& grid, int rank) {
  require_fits(problem, grid);
  Problem plain = problem;
  plain.poison_true_rows = false;
  plain.spec.weight_layout = WeightLayout::vocab_hidden;
  const PackedBatch batch = pack(plain, grid);
  HeldByRank held{plain,
                  grid,
                  rank,
                  batch,
                  cp_rows(batch, grid.cp, grid.cp_rank(rank)),
                  {},
                  vocab_shard(plain.spec.vocab, grid.tp, grid.tp_rank(rank))};
  held.real = shift_targets(batch).gather(held.positions).real;
  const std::map<std::string, std::string> metadata{
      {"format", "lossgrid.rank/1"},
      {"objective", objective_text(problem.spec.objective)},
      {"grid", format_grid(grid)},
      {"rank", std::to_string(rank)},
      {"tp_rank", std::to_string(grid.tp_rank(rank))},
      {"cp_rank", std::to_string(grid.cp_rank(rank))},
      {"vocab_size", std::to_string(problem.spec.vocab)},
      {"vocab_start", std::to_string(held.shard.begin)},
      {"vocab_end", std::to_string(held.shard.end)},
      {"global_valid_toks", std::to_string(problem.denominators.valid_tokens)},
      {"global_valid_seqs", std::to_string(problem.denominators.valid_sequences)}};
  write_safetensors(path, metadata, view_tensors(held));
}

}  // namespace lossgrid
