// SPDX-License-Identifier: Apache-2.0
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // no server is without AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "impls/kernels/cpu/softmax_rows.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "impls/kernels/cpu/flush_denormals.h"
#include "impls/kernels/cpu/plain_rows.h"
#include "impls/kernels/cpu/prefetch.h"
#include "impls/kernels/cpu/row_parts.h"
#include "impls/kernels/cpu/row_statistics-inl.h"
#include "impls/kernels/cpu/softmax_rows.h"
#include "impls/kernels/cpu/streaming.h"
#include "impls/kernels/cpu/term_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

template <typename T>
void statistics_of_rows(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  const FlushDenormals flush;
  const bool all = out.weighted != nullptr;
  const std::int64_t columns = rows.shard.valid();
  const std::int64_t ahead = prefetch_elements<T>();
  for (std::int64_t r = part.first(); r < rows.rows; r = part.next(r)) {
    if (rows.targets[r] < 0) {
      write_nothing(out, r);
      continue;
    }
    const T* x = static_cast<const T*>(rows.data) + r * rows.shard.width;
    const RowSums sums = all ? all_sums_of_row(x, columns, ahead) : sums_of_row(x, columns, ahead);
    out.shift[r] = sums.shift;
    out.sum[r] = sums.sum;
    const bool owns = rows.shard.owns(rows.targets[r]);
    out.target[r] =
        owns ? distance_to(static_cast<float>(x[rows.targets[r] - rows.shard.begin]), sums.shift)
             : 0.0f;
    if (!all) continue;
    out.weighted[r] = sums.weighted;
    out.min[r] = sums.min;
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

template <typename T>
void gradient_of_rows(const LogitsRows& rows, const float* shift, const float* sum,
                      const float* grad, void* out, bool stream, const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.shard.valid();
  const std::int64_t width = rows.shard.width;
  const std::int64_t ahead = prefetch_elements<T>();
  for (std::int64_t r = part.first(); r < rows.rows; r = part.next(r)) {
    T* to = static_cast<T*>(out) + r * width;
    if (grad[r] == 0) {
      std::fill_n(to, width, T(0));
      continue;
    }
    const T* x = static_cast<const T*>(rows.data) + r * width;
    const RowTarget target(rows, r, x, shift[r], sum[r]);
    const Exponent exponent(shift[r]);
    const auto factor = static_cast<float>(-static_cast<double>(grad[r]) / sum[r] *
                                           exp2_of_small(exponent.rounding()));
    const std::int64_t head = stream ? before_line(to, columns) : 0;
    const std::int64_t body = (columns - head) / kLanes * kLanes;
    scaled_rest(x, head, exponent, factor, to);
    if (stream) {
      scaled_row<true>(x + head, body, exponent, factor, ahead, to + head);
    } else {
      scaled_row<false>(x + head, body, exponent, factor, ahead, to + head);
    }
    scaled_rest(x + head + body, columns - head - body, exponent, factor, to + head + body);
    if (target.column >= 0) to[target.column] = static_cast<T>(grad[r] * target.rest);
    std::fill(to + columns, to + width, T(0));
  }
  if (stream) hwy::FlushStream();
}

void statistics_f32(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  statistics_of_rows<float>(rows, out, part);
}
void statistics_bf16(const LogitsRows& rows, const RowStatistics& out, const RowPart& part) {
  statistics_of_rows<bf16>(rows, out, part);
}
void gradient_f32(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                  void* out, bool stream, const RowPart& part) {
  gradient_of_rows<float>(rows, shift, sum, grad, out, stream, part);
}
void gradient_bf16(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out, bool stream, const RowPart& part) {
  gradient_of_rows<bf16>(rows, shift, sum, grad, out, stream, part);
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
  const bool stream = is_streamed(rows, out);
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
