// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "impls/kernels/cpu/softmax_rows.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "harness/loss/objective_tokens.h"
#include "impls/kernels/cpu/flush_denormals.h"
#include "impls/kernels/cpu/memory_streams.h"
#include "impls/kernels/cpu/plain_rows.h"
#include "impls/kernels/cpu/row_batches.h"
#include "impls/kernels/cpu/row_parts.h"
#include "impls/kernels/cpu/rows_side_by_side-inl.h"
#include "impls/kernels/cpu/softmax_rows.h"
#include "impls/kernels/cpu/streaming.h"
#include "impls/kernels/cpu/term_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

template <typename T>
const T* row_of(const LogitsRows& rows, std::int64_t r) {
  return static_cast<const T*>(rows.data) + r * rows.shard.width;
}

/// True if rows of this length are read side by side.
template <typename T>
bool are_side_by_side(std::int64_t columns) {
  constexpr std::int64_t kLeastBytes = 8192;
  const std::int64_t bytes = columns * static_cast<std::int64_t>(sizeof(T));
  return kRowsSideBySide > 1 && are_read_side_by_side(bytes, kLeastBytes);
}

/// Returns the logits of a batch of rows, and of the next batch.
template <std::size_t kRows, typename T>
RowsSideBySide<kRows, T> batch_logits(const LogitsRows& rows, const RowBatch<kRows>& batch,
                                      const RowBatch<kRows>& following) {
  RowsSideBySide<kRows, T> logits;
  for (std::size_t k = 0; k < kRows; ++k) {
    logits.x[k] = row_of<T>(rows, batch.rows[k]);
    logits.following[k] = k < following.count ? row_of<T>(rows, following.rows[k]) : logits.x[k];
  }
  return logits;
}

/// Computes the statistics of the rows of a part, kRows rows side by side; with `kAll` also the
/// weighted sums and the smallest logits.
template <bool kAll, std::size_t kRows, typename T>
void statistics_of_rows(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.shard.valid();
  const std::int64_t ahead = prefetch_elements<T>();
  const auto has_target = [&](std::int64_t r) {
    if (rows.targets[r] < 0) write_nothing(out, r);
    return rows.targets[r] >= 0;
  };
  const auto write = [&](std::int64_t r, const RowSums& sums) {
    out.shift[r] = sums.shift;
    out.sum[r] = sums.sum;
    const bool owns = rows.shard.owns(rows.targets[r]);
    const std::int64_t column = rows.targets[r] - rows.shard.begin;
    out.target[r] =
        owns ? distance_to(static_cast<float>(row_of<T>(rows, r)[column]), sums.shift) : 0.0f;
    if constexpr (kAll) {
      out.weighted[r] = sums.weighted;
      out.min[r] = sums.min;
    }
  };
  using Batch = RowBatch<kRows>;
  const auto compute = [&](const Batch& batch, const Batch& following) {
    std::array<RowSums, kRows> sums;
    if (kRows > 1 && batch.is_full()) {
      const auto logits = batch_logits<kRows, T>(rows, batch, following);
      constexpr std::int64_t kAhead = kPrefetchBytesSideBySide / sizeof(T);
      if constexpr (kAll) {
        all_sums_of_rows(logits, columns, kAhead, sums);
      } else {
        sums_of_rows(logits, columns, kAhead, sums);
      }
    } else {
      for (std::size_t k = 0; k < batch.count; ++k) {
        const T* x = row_of<T>(rows, batch.rows[k]);
        sums[k] = kAll ? all_sums_of_row(x, columns, ahead) : sums_of_row(x, columns, ahead);
      }
    }
    for (std::size_t k = 0; k < batch.count; ++k) write(batch.rows[k], sums[k]);
  };
  for_each_batch<kRows>(rows.rows, part, has_target, compute);
}

template <typename T>
void statistics_of_part(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  const bool side_by_side = are_side_by_side<T>(rows.shard.valid());
  if (out.weighted != nullptr) {
    side_by_side ? statistics_of_rows<true, kRowsOfAll, T>(rows, out, part)
                 : statistics_of_rows<true, 1, T>(rows, out, part);
  } else {
    side_by_side ? statistics_of_rows<false, kRowsSideBySide, T>(rows, out, part)
                 : statistics_of_rows<false, 1, T>(rows, out, part);
  }
}

template <bool kStream, typename T>
HWY_INLINE void scaled_row(const T* x, std::int64_t count, const Exponent& exponent, float factor,
                           std::int64_t ahead, T* out) {
  if (exponent.fused) {
    scaled_block<true, kStream>(x, count, exponent.scaled, factor, ahead, out);
  } else {
    scaled_block<false, kStream>(x, count, exponent.shift, factor, ahead, out);
  }
}

/// Scales fewer than kLanes elements.
template <typename T>
HWY_INLINE void scaled_rest(const T* x, std::int64_t count, const Exponent& exponent, float factor,
                            T* out) {
  if (count == 0) return;
  Tail<T> tail(x, count);
  scaled_row<false>(tail.elements, kLanes, exponent, factor, 0, tail.elements);
  std::copy_n(tail.elements, count, out);
}

/// One row and its gradient: - grad p, and the gradient of the target. Between `head` and `tail`
/// are whole lanes; if the row is streamed, the lanes begin with a cache line.
template <bool kStream, typename T>
struct GradientRow {
  const T* x;
  T* to;
  RowTarget target;
  Exponent exponent;
  float factor;
  std::int64_t head;
  std::int64_t tail;

  GradientRow(const LogitsRows& rows, std::int64_t r, float shift, float sum, float grad, T* out)
      : x(row_of<T>(rows, r)),
        to(out + r * rows.shard.width),
        target(rows, r, x, shift, sum),
        exponent(shift),
        factor(static_cast<float>(-static_cast<double>(grad) / sum *
                                  exp2_of_small(exponent.rounding()))),
        head(kStream ? before_line(to, rows.shard.valid()) : 0),
        tail(head + (rows.shard.valid() - head) / kLanes * kLanes) {}

  void write_lanes(std::int64_t ahead) const {
    scaled_row<kStream>(x + head, tail - head, exponent, factor, ahead, to + head);
  }

  /// Writes the elements outside of whole lanes, and the target.
  void write_ends(const VocabShard& shard, float grad) const {
    scaled_rest(x, head, exponent, factor, to);
    scaled_rest(x + tail, shard.valid() - tail, exponent, factor, to + tail);
    if (target.column >= 0) to[target.column] = static_cast<T>(grad * target.rest);
    std::fill(to + shard.valid(), to + shard.width, T(0));
  }
};

/// True if the gradient of a row, times a power of 2 below 2, may be beyond the largest float32.
bool may_overflow(float grad, float sum) {
  return std::abs(grad) > std::numeric_limits<float>::max() / 4 * std::min(sum, 1.0f);
}

/// Writes the gradient of a row element by element, each limited to the largest float32.
template <typename T>
void write_limited(const LogitsRows& rows, std::int64_t r, float shift, float sum, float grad,
                   T* to) {
  const T* x = row_of<T>(rows, r);
  const RowTarget target(rows, r, x, shift, sum);
  for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
    const double p = std::exp(distance_to_shift(static_cast<double>(x[v]), shift)) / sum;
    to[v] = static_cast<T>(as_gradient(-static_cast<double>(grad) * p));
  }
  if (target.column >= 0) to[target.column] = static_cast<T>(grad * target.rest);
  std::fill(to + rows.shard.valid(), to + rows.shard.width, T(0));
}

/// Rows whose whole lanes are written side by side.
template <std::size_t kRows, bool kStream, typename T>
using GradientRows = std::array<std::optional<GradientRow<kStream, T>>, kRows>;

/// True if the batch is full, and all rows have lanes at the same place and shifts that take one
/// operation.
template <std::size_t kRows, bool kStream, typename T>
bool are_alike(const GradientRows<kRows, kStream, T>& rows) {
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) {
    return row && row->exponent.fused && row->head == rows[0]->head && row->tail == rows[0]->tail;
  });
}

template <std::size_t kRows, bool kStream, typename T>
HWY_INLINE void write_lanes(const GradientRows<kRows, kStream, T>& rows,
                            const RowsSideBySide<kRows, T>& logits, std::int64_t columns) {
  constexpr std::int64_t kAhead = kPrefetchBytesSideBySide / sizeof(T);
  const std::int64_t tail = rows[0]->tail;
  for (std::int64_t begin = rows[0]->head; begin < tail; begin += kBlockSize) {
    BlocksSideBySide<kRows, T> blocks;
    std::array<float, kRows> factors;
    std::array<T*, kRows> to;
    for (std::size_t k = 0; k < kRows; ++k) {
      blocks.x[k] = rows[k]->x + begin;
      blocks.by[k] = rows[k]->exponent.scaled;
      blocks.ahead[k] = logits.ahead(k, begin, columns, kAhead);
      factors[k] = rows[k]->factor;
      to[k] = rows[k]->to + begin;
    }
    scaled_blocks<kStream>(blocks, std::min(kBlockSize, tail - begin), factors, to);
  }
}

template <std::size_t kRows, bool kStream, typename T>
void gradient_of_rows(const LogitsRows& rows, const float* shift, const float* sum,
                      const float* grad, T* out, const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.shard.valid();
  const std::int64_t ahead = prefetch_elements<T>();
  const auto has_gradient = [&](std::int64_t r) {
    T* to = out + r * rows.shard.width;
    if (grad[r] == 0) std::fill_n(to, rows.shard.width, T(0));
    if (!may_overflow(grad[r], sum[r])) return grad[r] != 0;
    write_limited(rows, r, shift[r], sum[r], grad[r], to);
    return false;
  };
  using Batch = RowBatch<kRows>;
  const auto compute = [&](const Batch& batch, const Batch& following) {
    GradientRows<kRows, kStream, T> of_batch;
    for (std::size_t k = 0; k < batch.count; ++k) {
      const std::int64_t r = batch.rows[k];
      of_batch[k].emplace(rows, r, shift[r], sum[r], grad[r], out);
    }
    if (kRows > 1 && are_alike<kRows, kStream, T>(of_batch)) {
      const auto logits = batch_logits<kRows, T>(rows, batch, following);
      write_lanes<kRows, kStream, T>(of_batch, logits, columns);
    } else {
      for (std::size_t k = 0; k < batch.count; ++k) of_batch[k]->write_lanes(ahead);
    }
    for (std::size_t k = 0; k < batch.count; ++k) {
      of_batch[k]->write_ends(rows.shard, grad[batch.rows[k]]);
    }
  };
  for_each_batch<kRows>(rows.rows, part, has_gradient, compute);
  if (kStream) hwy::FlushStream();
}

template <typename T>
void gradient_of_part(const LogitsRows& rows, const float* shift, const float* sum,
                      const float* grad, void* out, bool stream, const RowPart& part) {
  auto* to = static_cast<T*>(out);
  const bool side_by_side = are_side_by_side<T>(rows.shard.valid());
  if (stream) {
    side_by_side ? gradient_of_rows<kRowsSideBySide, true>(rows, shift, sum, grad, to, part)
                 : gradient_of_rows<1, true>(rows, shift, sum, grad, to, part);
  } else {
    side_by_side ? gradient_of_rows<kRowsSideBySide, false>(rows, shift, sum, grad, to, part)
                 : gradient_of_rows<1, false>(rows, shift, sum, grad, to, part);
  }
}

void statistics_f32(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  statistics_of_part<float>(rows, out, part);
}
void statistics_bf16(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  statistics_of_part<bf16>(rows, out, part);
}
void gradient_f32(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                  void* out, bool stream, const RowPart& part) {
  gradient_of_part<float>(rows, shift, sum, grad, out, stream, part);
}
void gradient_bf16(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out, bool stream, const RowPart& part) {
  gradient_of_part<bf16>(rows, shift, sum, grad, out, stream, part);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(statistics_f32);
HWY_EXPORT(statistics_bf16);
HWY_EXPORT(gradient_f32);
HWY_EXPORT(gradient_bf16);

void cpu_statistics(const LogitsRows& rows, const RowStatistics& out) {
  if (rows.transforms != nullptr || rows.kept != nullptr || out.total != nullptr) {
    return cpu_term_statistics(rows, out);
  }
  if (rows.dtype == DType::f64) return plain_statistics(rows, out);
  for_each_part(rows.rows, [&](const RowPart& part) {
    if (rows.dtype == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(statistics_bf16)(rows, out, part);
    } else {
      HWY_DYNAMIC_DISPATCH(statistics_f32)(rows, out, part);
    }
  });
}

void cpu_gradient(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                  void* out) {
  if (rows.transforms != nullptr || rows.kept != nullptr || !gradients.logprob_alone()) {
    return cpu_term_gradient(rows, softmax, gradients, out);
  }
  const float* shift = softmax.shift;
  const float* sum = softmax.sum;
  const float* grad = gradients.logprob;
  if (rows.dtype == DType::f64) return plain_gradient(rows, shift, sum, grad, out);
  const bool stream = rows.streams(out);
  for_each_part(rows.rows, [&](const RowPart& part) {
    if (rows.dtype == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(gradient_bf16)(rows, shift, sum, grad, out, stream, part);
    } else {
      HWY_DYNAMIC_DISPATCH(gradient_f32)(rows, shift, sum, grad, out, stream, part);
    }
  });
}

}  // namespace lossgrid
#endif
