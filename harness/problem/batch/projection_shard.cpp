// SPDX-License-Identifier: Apache-2.0
// Hidden states and vocab shard of weight and bias of the lm_head on one rank, with poison in all
// places that a right implementation does not read, and the initial values of its gradient of the
// weight.
#include <algorithm>
#include <span>
#include <vector>

#include "harness/device/kernel/rank_threads.h"
#include "harness/problem/batch/poison.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/rows_to_read.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/values/normal_row.h"
#include "harness/problem/values/random_streams.h"

namespace lossgrid {
namespace {

/// Fills padding: with poison, or with plausible values of the row of a position or id.
void fill_padding(const CaseSpec& spec, Stream stream, std::int64_t row, std::span<float> out) {
  if (spec.poison == Poison::none) {
    fill_normals(spec.seed, static_cast<std::uint32_t>(stream), static_cast<std::uint64_t>(row), 0,
                 out);
  } else {
    std::fill(out.begin(), out.end(), poison_or(spec.poison, 0.0f));
  }
}

/// Writes the shard of a tensor that has a row of H numbers for each id, [V_t, H] or [H, V_t].
/// row(column, values) makes the row of one column of the shard.
template <typename T, typename Row>
void write_ids(WeightLayout layout, std::int64_t width, std::int64_t size, Row&& row, T* out) {
  if (layout == WeightLayout::vocab_hidden) {
    parallel_for(width, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> values(static_cast<std::size_t>(size));
      for (std::int64_t column = begin; column < end; ++column) {
        row(column, std::span<float>(values));
        std::transform(values.begin(), values.end(), out + column * size,
                       [](float v) { return T(v); });
      }
    });
    return;
  }
  constexpr std::int64_t kTile = 16;  // neighbours in memory are written together
  parallel_for((width + kTile - 1) / kTile, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> tile(static_cast<std::size_t>(kTile * size));
    for (std::int64_t first = begin * kTile; first < std::min(end * kTile, width); first += kTile) {
      const std::int64_t columns = std::min(kTile, width - first);
      for (std::int64_t c = 0; c < columns; ++c) {
        row(first + c, std::span<float>(tile.data() + c * size, static_cast<std::size_t>(size)));
      }
      for (std::int64_t k = 0; k < size; ++k) {
        for (std::int64_t c = 0; c < columns; ++c) {
          out[k * width + first + c] = T(tile[c * size + k]);
        }
      }
    }
  });
}

/// Factors of logits with the dtype in which ranks hold them, and the streams of their padding.
struct HeldFactors {
  const Projection& projection;
  DType dtype;
  Stream pad_hidden;
  Stream pad_weight;
};

HeldFactors factors_of_student(const Problem& problem) {
  return {*problem.projection, problem.spec.dtype, Stream::pad_hidden, Stream::pad_weight};
}

HeldFactors factors_of_teacher(const Problem& problem) {
  return {*problem.teacher_projection, problem.teacher_dtype, Stream::pad_teacher_hidden,
          Stream::pad_teacher_weight};
}

void fill_hidden(const Problem& problem, const HeldFactors& factors, const Grid& grid, int tp_rank,
                 int cp_rank, void* out) {
  const CaseSpec& spec = problem.spec;
  const Projection& projection = factors.projection;
  const PackedLayout layout = layout_of(problem, grid);
  const std::vector<std::int64_t> tokens = rows_to_read(problem, layout);
  const std::vector<std::int64_t> positions = cp_rows(layout.cu_padded, grid, cp_rank);
  const std::size_t count = positions.size() / static_cast<std::size_t>(grid.row_parts());
  const std::size_t first = grid.sp ? count * static_cast<std::size_t>(tp_rank) : 0;
  std::vector<float> padding(static_cast<std::size_t>(projection.size));
  dispatch_floating(factors.dtype, [&](auto element) {
    using T = decltype(element);
    T* next = static_cast<T*>(out);
    for (const std::int64_t position : std::span(positions).subspan(first, count)) {
      const std::int64_t token = tokens[static_cast<std::size_t>(position)];
      const float* row = padding.data();
      if (token < 0) {
        fill_padding(spec, factors.pad_hidden, position, padding);
      } else {
        row = projection.hidden_row(problem.whole_row(token));
      }
      next = std::transform(row, row + projection.size, next, [](float v) { return T(v); });
    }
  });
}

void fill_weight(const CaseSpec& spec, const HeldFactors& factors, WeightLayout layout,
                 const Grid& grid, int tp_rank, void* out) {
  const Projection& projection = factors.projection;
  const VocabShard shard = vocab_shard(spec.vocab, grid.tp, tp_rank);
  const auto row = [&](std::int64_t column, std::span<float> values) {
    if (column < shard.valid()) {
      std::copy_n(projection.weight_row(shard.begin + column), projection.size, values.begin());
    } else {
      fill_padding(spec, factors.pad_weight, shard.width * tp_rank + column, values);
    }
  };
  dispatch_floating(factors.dtype, [&](auto element) {
    using T = decltype(element);
    write_ids(layout, shard.width, projection.size, row, static_cast<T*>(out));
  });
}

}  // namespace

void fill_hidden_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                       void* out) {
  fill_hidden(problem, factors_of_student(problem), grid, tp_rank, cp_rank, out);
}

void fill_weight_shard(const Problem& problem, const Grid& grid, int tp_rank, void* out) {
  fill_weight(problem.spec, factors_of_student(problem), problem.spec.weight_layout, grid, tp_rank,
              out);
}

void fill_teacher_hidden_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                               void* out) {
  fill_hidden(problem, factors_of_teacher(problem), grid, tp_rank, cp_rank, out);
}

void fill_teacher_weight_shard(const Problem& problem, const Grid& grid, int tp_rank, void* out) {
  fill_weight(problem.spec, factors_of_teacher(problem), WeightLayout::vocab_hidden, grid, tp_rank,
              out);
}

void fill_bias_shard(const Problem& problem, const Grid& grid, int tp_rank, void* out) {
  const CaseSpec& spec = problem.spec;
  const VocabShard shard = vocab_shard(spec.vocab, grid.tp, tp_rank);
  dispatch_floating(spec.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::int64_t column = 0; column < shard.width; ++column) {
      float value = 0;
      if (column < shard.valid()) {
        value = problem.projection->bias(shard.begin + column);
      } else {
        fill_padding(spec, Stream::pad_bias, shard.width * tp_rank + column, {&value, 1});
      }
      static_cast<T*>(out)[column] = T(value);
    }
  });
}

void fill_weight_gradient(const Problem& problem, const Grid& grid, int tp_rank, float* out) {
  const CaseSpec& spec = problem.spec;
  const VocabShard shard = vocab_shard(spec.vocab, grid.tp, tp_rank);
  const auto row = [&](std::int64_t column, std::span<float> values) {
    if (column < shard.valid()) {
      embedding_gradient(problem, shard.begin + column, values);
    } else {  // no token has a padding id
      std::fill(values.begin(), values.end(), 0.0f);
    }
  };
  write_ids(spec.weight_layout, shard.width, problem.projection->size, row, out);
}

void embedding_gradient(const Problem& problem, std::int64_t id, std::span<float> out) {
  const CaseSpec& spec = problem.spec;
  if (!spec.tied_embedding) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  // Typical size of the gradient of a loss that is a mean over tokens.
  constexpr float kMagnitude = 1e-3f;
  fill_normals(spec.seed, static_cast<std::uint32_t>(Stream::embedding_gradient),
               static_cast<std::uint64_t>(id), 0, out);
  for (float& value : out) value *= kMagnitude;
}

}  // namespace lossgrid
