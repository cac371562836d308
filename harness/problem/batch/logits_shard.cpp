// SPDX-License-Identifier: Apache-2.0
// Logits of one rank, with poison in all places that a right implementation does not read.
#include <algorithm>
#include <span>
#include <type_traits>
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

template <typename T>
class Filler {
 public:
  Filler(const Problem& problem, const LogitsSource& logits, const VocabShard& shard, int tp_rank)
      : problem_(problem),
        logits_(logits),
        shard_(shard),
        first_column_(shard.width * tp_rank),
        buffer_(static_cast<std::size_t>(shard.width)) {}

  void row(std::int64_t token, std::int64_t position, T* out) {
    const std::int64_t read = token < 0 ? 0 : shard_.valid();
    if (read > 0) copy_row(token, out);
    if (problem_.spec.poison == Poison::none) {
      fill_plausible(position, read, out);
    } else {
      std::fill_n(out + read, shard_.width - read, T(poison_or(problem_.spec.poison, 0.0f)));
    }
  }

 private:
  void fill_plausible(std::int64_t position, std::int64_t first, T* out) {
    const auto values = std::span<float>(buffer_).subspan(static_cast<std::size_t>(first));
    fill_normals(problem_.spec.seed, static_cast<std::uint32_t>(Stream::pad_logits),
                 static_cast<std::uint64_t>(position), first_column_ + first, values);
    std::transform(values.begin(), values.end(), out + first, [](float value) { return T(value); });
  }

  void copy_row(std::int64_t token, T* out) {
    if constexpr (std::is_same_v<T, bf16>) {
      const auto values = std::span<float>(buffer_).first(static_cast<std::size_t>(shard_.valid()));
      logits_.read(token, shard_.begin, values);
      std::transform(values.begin(), values.end(), out, [](float value) { return bf16(value); });
    } else {
      logits_.read(token, shard_.begin,
                   std::span<T>(out, static_cast<std::size_t>(shard_.valid())));
    }
  }

  const Problem& problem_;
  const LogitsSource& logits_;
  const VocabShard shard_;
  const std::int64_t first_column_;
  std::vector<float> buffer_;
};

/// Writes the rows of one rank in `dtype`.
void fill_shard(const Problem& problem, const LogitsSource& logits, DType dtype, const Grid& grid,
                int tp_rank, int cp_rank, void* out) {
  const CaseSpec& spec = problem.spec;
  const PackedLayout layout = layout_of(problem, grid);
  const VocabShard shard = vocab_shard(spec.vocab, grid.tp, tp_rank);
  const std::vector<std::int64_t> rows = rows_to_read(problem, layout);
  const std::vector<std::int64_t> positions = cp_rows(layout.cu_padded, grid, cp_rank);
  dispatch_floating(dtype, [&](auto element) {
    using T = decltype(element);
    parallel_for(static_cast<std::int64_t>(positions.size()),
                 [&](std::int64_t begin, std::int64_t end) {
                   Filler<T> filler(problem, logits, shard, tp_rank);
                   for (std::int64_t k = begin; k < end; ++k) {
                     const std::int64_t position = positions[static_cast<std::size_t>(k)];
                     filler.row(rows[position], position, static_cast<T*>(out) + k * shard.width);
                   }
                 });
  });
}

}  // namespace

void fill_logits_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                       void* out) {
  fill_shard(problem, problem.given_logits(), problem.spec.dtype, grid, tp_rank, cp_rank, out);
}

void fill_mask_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                     std::uint64_t* out) {
  const PackedLayout layout = layout_of(problem, grid);
  const VocabShard shard = vocab_shard(problem.spec.vocab, grid.tp, tp_rank);
  const std::vector<std::int64_t> rows = rows_to_read(problem, layout);
  const std::int64_t words = mask_words(shard.width);
  for (const std::int64_t position : cp_rows(layout.cu_padded, grid, cp_rank)) {
    const std::span<std::uint64_t> row(out, static_cast<std::size_t>(words));
    if (rows[position] < 0) {
      std::fill(row.begin(), row.end(), 0);
    } else {
      problem.sampling_mask->read(problem.whole_row(rows[position]), shard.begin, shard.valid(),
                                  row);
    }
    out += words;
  }
}

void fill_teacher_shard(const Problem& problem, const Grid& grid, int tp_rank, int cp_rank,
                        void* out) {
  fill_shard(problem, *problem.given_teacher, problem.teacher_dtype, grid, tp_rank, cp_rank, out);
}

}  // namespace lossgrid
