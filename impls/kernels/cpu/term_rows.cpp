// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "impls/kernels/cpu/term_rows.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "harness/loss/objective_tokens.h"
#include "harness/problem/values/sampling_mask.h"
#include "impls/kernels/cpu/flush_denormals.h"
#include "impls/kernels/cpu/memory_streams.h"
#include "impls/kernels/cpu/plain_rows.h"
#include "impls/kernels/cpu/plain_term_rows.h"
#include "impls/kernels/cpu/row_parts.h"
#include "impls/kernels/cpu/streaming.h"
#include "impls/kernels/cpu/term_blocks-inl.h"
#include "impls/kernels/cpu/term_rows.h"
#include "impls/kernels/kept_columns.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// Running sums over the blocks of a row, relative to their maximum: float32 within a block,
/// float64 over blocks.
struct TermSums {
  float shift = -std::numeric_limits<float>::infinity();
  float min = std::numeric_limits<float>::infinity();
  double sum = 0;
  double weighted = 0;
  double total = 0;
  double finite = 0;
  double squares = 0;

  /// Returns a finite shift, so that no distance to the shift is NaN.
  float finite_shift() const { return std::isinf(shift) && shift < 0 ? 0.0f : shift; }

  void raise_shift(float to) {
    if (sum != 0) {
      const double by = static_cast<double>(shift) - to;
      const double scale = std::exp(by);
      weighted = scale * (weighted + by * sum);
      sum *= scale;
      squares *= scale * scale;
      total += by * finite;
    }
    shift = to;
  }
};

/// Requested statistics of a row other than the sum.
struct AskedTerms {
  bool weighted;
  bool total;
  bool predictions;
};

HWY_INLINE ExpSums asked_sums_of(const TermBlock& block, AskedTerms asked, float shift) {
  if (asked.predictions) {
    return asked.weighted ? exp_sums_of<true, true>(block, shift)
                          : exp_sums_of<false, true>(block, shift);
  }
  return asked.weighted ? exp_sums_of<true, false>(block, shift)
                        : exp_sums_of<false, false>(block, shift);
}

HWY_INLINE void add_block(const TermBlock& block, AskedTerms asked, TermSums& row) {
  const float largest = largest_of_block(block);
  if (largest > row.shift) row.raise_shift(largest);
  const float shift = row.finite_shift();
  const ExpSums sums = asked_sums_of(block, asked, shift);
  row.sum += sums.sum;
  row.weighted += sums.weighted;
  row.squares += sums.squares;
  if (asked.weighted) row.min = std::min(row.min, smallest_of_block(block));
  if (!asked.total) return;
  const FiniteSums finite = finite_sums_of(block, shift);
  row.total += finite.total;
  row.finite += finite.count;
}

/// Row of a tensor with its transform and its kept columns.
template <typename T>
struct TransformedRow {
  const T* x;
  RowTransform transform;
  std::span<const std::uint64_t> kept;  // empty: all columns

  TransformedRow(const LogitsRows& rows, std::int64_t r)
      : x(static_cast<const T*>(rows.data) + r * rows.shard.width),
        transform(rows.transforms == nullptr ? RowTransform{} : rows.transforms[r]) {
    if (rows.kept == nullptr) return;
    kept = {KeptColumns::of_row(rows.kept, rows.shard.width, r).words,
            static_cast<std::size_t>(mask_words(rows.shard.width))};
  }

  void read(std::int64_t begin, std::int64_t count, std::int64_t ahead, TermBlock& block) const {
    read_block(x + begin, count, transform, ahead, block);
    if (!kept.empty()) mask_block<T>(kept, begin, block);
  }
};

/// Returns the largest logit of columns [begin, end); -inf for an empty range.
template <typename T>
HWY_INLINE float largest_between(const TransformedRow<T>& row, std::int64_t begin, std::int64_t end,
                                 TermBlock& block) {
  float largest = -std::numeric_limits<float>::infinity();
  for (; begin < end; begin += kBlockSize) {
    row.read(begin, std::min(kBlockSize, end - begin), 0, block);
    largest = std::max(largest, largest_of_block(block));
  }
  return largest;
}

/// True if a column has a larger logit than column `target`, or precedes it with the same logit.
/// The row's largest logit is known, so columns are read again only if the target has that logit.
template <typename T>
HWY_INLINE bool is_beaten(const TransformedRow<T>& row, float largest, std::int64_t target,
                          TermBlock& block) {
  row.read(target, 1, 0, block);
  const float of_target = block.z[0];
  return of_target < largest || largest_between(row, 0, target, block) >= of_target;
}

template <typename T>
void term_statistics_of_rows(const LogitsRows& rows, const RowStatistics& out,
                             const RowPart& part) {
  const FlushDenormals flush;
  const AskedTerms asked{out.weighted != nullptr, out.total != nullptr, out.squares != nullptr};
  const std::int64_t columns = rows.shard.valid();
  const std::int64_t ahead = prefetch_elements<T>();
  TermBlock block;
  for (std::int64_t r = part.first(); r < rows.rows; r = part.next(r)) {
    if (rows.targets[r] < 0) {
      write_nothing(out, r);
      continue;
    }
    const TransformedRow<T> row(rows, r);
    TermSums sums;
    for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
      row.read(begin, std::min(kBlockSize, columns - begin), ahead, block);
      add_block(block, asked, sums);
    }
    out.shift[r] = sums.shift;
    out.sum[r] = static_cast<float>(sums.sum);
    out.target[r] = 0;
    if (rows.shard.owns(rows.targets[r])) {
      row.read(rows.targets[r] - rows.shard.begin, 1, 0, block);
      out.target[r] = block.z[0] - sums.finite_shift();
    }
    if (asked.weighted) {
      out.weighted[r] = static_cast<float>(sums.weighted);
      out.min[r] = sums.min;
    }
    if (!asked.total) continue;
    out.total[r] = to_float(sums.total);
    out.finite[r] = static_cast<float>(sums.finite);
    if (!asked.predictions) continue;
    out.squares[r] = static_cast<float>(sums.squares);
    out.beaten[r] = rows.shard.owns(rows.targets[r]) &&
                            is_beaten(row, sums.shift, rows.targets[r] - rows.shard.begin, block)
                        ? 1.0f
                        : 0.0f;
  }
}

/// Gradient of one row.
template <typename T>
class TermGradientOfRow {
 public:
  TermGradientOfRow(const LogitsRows& rows, const RowSoftmax& softmax,
                    const RowGradients& gradients, std::int64_t r)
      : from_(rows, r), has_limit_(from_.transform.limit != 0) {
    row_.shift = softmax.shift[r];
    row_.sum = softmax.sum[r];
    row_.log_sum = std::log(row_.sum);
    row_.by = row_coefficients(softmax, gradients, rows.vocab, r);
    for (float* by : {&row_.by.a, &row_.by.b, &row_.by.c, &row_.by.d}) {
      *by = as_gradient(static_cast<double>(*by) * from_.transform.factor);
    }
    if (rows.shard.owns(rows.targets[r])) {
      set_target(rows.targets[r] - rows.shard.begin);
    }
  }

  /// Writes the elements [begin, end).
  template <bool kStream>
  void write(std::int64_t begin, std::int64_t end, std::int64_t ahead, T* to) {
    for (; begin < end; begin += kBlockSize) {
      const std::int64_t count = std::min(kBlockSize, end - begin);
      from_.read(begin, count, ahead, block_);
      if (row_.by.c == 0) {
        has_limit_ ? gradient_of_block<false, true>(row_, block_)
                   : gradient_of_block<false, false>(row_, block_);
      } else {
        has_limit_ ? gradient_of_block<true, true>(row_, block_)
                   : gradient_of_block<true, false>(row_, block_);
      }
      write_block<kStream>(block_, count, to + begin);
    }
  }

  /// Writes the element of the target, after all others.
  void write_target(T* to) const {
    if (target_ >= 0) to[target_] = static_cast<T>(of_target_);
  }

 private:
  void set_target(std::int64_t column) {
    target_ = column;
    from_.read(column, 1, 0, block_);
    const float z = block_.z[0];
    const float distance = distance_to(z, row_.shift);
    const float p = std::exp(distance) / row_.sum;
    of_target_ = row_.by.of_target(z, p, distance - row_.log_sum);
    if (has_limit_) of_target_ *= block_.slope[0];
  }

  TransformedRow<T> from_;
  bool has_limit_;
  TermGradient row_;          // numbers times the factor of the transform
  std::int64_t target_ = -1;  // column, -1: another shard owns it
  float of_target_ = 0;
  TermBlock block_;
};

template <typename T>
void term_gradient_of_rows(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, void* out, bool stream,
                           const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.shard.valid();
  const std::int64_t width = rows.shard.width;
  const std::int64_t ahead = prefetch_elements<T>();
  for (std::int64_t r = part.first(); r < rows.rows; r = part.next(r)) {
    T* to = static_cast<T*>(out) + r * width;
    if (gradients.is_zero(r)) {
      std::fill_n(to, width, T(0));
      continue;
    }
    TermGradientOfRow<T> gradient(rows, softmax, gradients, r);
    if (stream) {
      const std::int64_t head = before_line(to, columns);
      const std::int64_t end = head + (columns - head) / kLanes * kLanes;
      gradient.template write<false>(0, head, 0, to);
      gradient.template write<true>(head, end, ahead, to);
      gradient.template write<false>(end, columns, 0, to);
    } else {
      gradient.template write<false>(0, columns, ahead, to);
    }
    gradient.write_target(to);
    std::fill(to + columns, to + width, T(0));
  }
  if (stream) hwy::FlushStream();
}

void term_statistics_f32(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  term_statistics_of_rows<float>(rows, out, part);
}
void term_statistics_bf16(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  term_statistics_of_rows<bf16>(rows, out, part);
}
void term_gradient_f32(const LogitsRows& rows, const RowSoftmax& softmax,
                       const RowGradients& gradients, void* out, bool stream, const RowPart& part) {
  term_gradient_of_rows<float>(rows, softmax, gradients, out, stream, part);
}
void term_gradient_bf16(const LogitsRows& rows, const RowSoftmax& softmax,
                        const RowGradients& gradients, void* out, bool stream,
                        const RowPart& part) {
  term_gradient_of_rows<bf16>(rows, softmax, gradients, out, stream, part);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(term_statistics_f32);
HWY_EXPORT(term_statistics_bf16);
HWY_EXPORT(term_gradient_f32);
HWY_EXPORT(term_gradient_bf16);

void cpu_term_statistics(const LogitsRows& rows, const RowStatistics& out) {
  if (rows.dtype == DType::f64) return plain_term_statistics(rows, out);
  for_each_part(rows.rows, [&](const RowPart& part) {
    if (rows.dtype == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(term_statistics_bf16)(rows, out, part);
    } else {
      HWY_DYNAMIC_DISPATCH(term_statistics_f32)(rows, out, part);
    }
  });
}

void cpu_term_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                       const RowGradients& gradients, void* out) {
  if (rows.dtype == DType::f64) return plain_term_gradient(rows, softmax, gradients, out);
  const bool stream = rows.streams(out);
  for_each_part(rows.rows, [&](const RowPart& part) {
    if (rows.dtype == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(term_gradient_bf16)(rows, softmax, gradients, out, stream, part);
    } else {
      HWY_DYNAMIC_DISPATCH(term_gradient_f32)(rows, softmax, gradients, out, stream, part);
    }
  });
}

}  // namespace lossgrid
#endif
