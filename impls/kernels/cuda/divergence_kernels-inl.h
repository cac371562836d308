// SPDX-License-Identifier: Apache-2.0
// Kernels of divergence_rows.h for GPUs, with one block of threads per row, and their launches. The
// formulas are those of cpu/divergence_blocks-inl.h. Kernels are bound by memory, so kinds and maps
// are chosen column by column; only pairs of dtypes have separate kernels.
#pragma once

#include <algorithm>

#include "impls/kernels/cuda/diverged_row-inl.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/row_gradient.h"

namespace lossgrid {

/// Number of elements of one row that a thread takes at once: whole vectors of both tensors.
template <typename S, typename T>
inline constexpr int kPairCount = std::max(kVectorSize<S>, kVectorSize<T>);

/// Loads group `group` of kCount elements into x[begin, begin + kCount).
template <int kCount, typename T, int kSize>
LOSSGRID_KERNEL void load_group(const RowVectors<T>& row, std::int64_t group, int begin,
                                T (&x)[kSize]) {
  constexpr int kVectors = kCount / kVectorSize<T>;
  for (int k = 0; k < kVectors; ++k) {
    const Vector<T> part = row(group * kVectors + k);
    for (int i = 0; i < kVectorSize<T>; ++i) x[begin + k * kVectorSize<T> + i] = part.items[i];
  }
}

/// Calls add(x, y) for one thread's elements of both rows, once per turn.
template <typename S, typename T, typename Add>
LOSSGRID_KERNEL void add_pairs_of_thread(const S* student, const T* teacher, std::int64_t columns,
                                         int thread, int threads, Add&& add) {
  constexpr int kCount = kPairCount<S, T>;
  const RowVectors<S> of_student(student);
  const RowVectors<T> of_teacher(teacher);
  const std::int64_t groups = columns / kCount;
  std::int64_t group = thread;
  for (; group + (kVectorsATurn - 1) * threads < groups; group += kVectorsATurn * threads) {
    S x[kVectorsATurn * kCount];
    T y[kVectorsATurn * kCount];
    for (int k = 0; k < kVectorsATurn; ++k) {
      load_group<kCount>(of_student, group + k * threads, k * kCount, x);
      load_group<kCount>(of_teacher, group + k * threads, k * kCount, y);
    }
    add(x, y);
  }
  for (; group < groups; group += threads) {
    S x[kCount];
    T y[kCount];
    load_group<kCount>(of_student, group, 0, x);
    load_group<kCount>(of_teacher, group, 0, y);
    add(x, y);
  }
  for (std::int64_t k = groups * kCount + thread; k < columns; k += threads) {
    const S x[1] = {load_element(student, k)};
    const T y[1] = {load_element(teacher, k)};
    add(x, y);
  }
}

/// Sums of a thread, float64 over its turns.
struct DivergenceOfThread {
  double of_teacher = 0;
  double of_student = 0;

  template <int kCount, typename S, typename T>
  LOSSGRID_KERNEL void add_columns(const DivergedRow& row, Divergence::Kind kind,
                                   const S (&x)[kCount], const T (&y)[kCount]) {
    float teacher[kCount];
    float student[kCount];
    for (int k = 0; k < kCount; ++k) {
      teacher[k] = student[k] = 0;
      const DivergedColumn column = row.column(x[k], y[k]);
      if (row.topk == Divergence::Topk::clamped) {
        const ClampedColumn clamped = row.clamped_column(column.student, y[k]);
        teacher[k] = product_or_zero(clamped.q, clamped.log);
        student[k] = clamped.q_left;
      } else if (kind == Divergence::Kind::forward) {
        teacher[k] = product_or_zero(column.q, -column.log_ratio);
      } else if (kind == Divergence::Kind::reverse) {
        student[k] = product_or_zero(column.p, column.log_ratio);
      } else if (kind == Divergence::Kind::mixed) {
        teacher[k] = product_or_zero(column.q, -column.log_ratio);
        student[k] = product_or_zero(column.p, column.log_ratio);
      } else {
        const LogsByMixture logs = row.logs_by_mixture(column.log_ratio);
        teacher[k] = product_or_zero(column.q, logs.of_q);
        student[k] = product_or_zero(column.p, logs.of_p);
      }
    }
    of_teacher += tree_sum<kCount>(teacher);
    of_student += tree_sum<kCount>(student);
  }
};

template <typename S, typename T>
struct DivergenceKernel {
  CudaDistilledRows rows;
  RowSoftmax p;
  RowSoftmax q;
  float* of_teacher;
  float* of_student;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (rows.student.targets[r] < 0) {
      block.one([&] { of_teacher[r] = of_student[r] = 0; });
      return;
    }
    const DivergedRow row(rows, p, q, r);
    const auto own = block.each([&](int thread) {
      DivergenceOfThread sums;
      add_pairs_of_thread(
          RowAccess<S>{rows.student}.row(r), RowAccess<T>{rows.teacher}.row(r),
          rows.student.columns, thread, block.threads(),
          [&](const auto& x, const auto& y) { sums.add_columns(row, rows.divergence.kind, x, y); });
      return sums;
    });
    const DivergenceOfThread whole = block.reduce(
        own, DivergenceOfThread(), [](const DivergenceOfThread& a, const DivergenceOfThread& b) {
          return DivergenceOfThread{a.of_teacher + b.of_teacher, a.of_student + b.of_student};
        });
    block.one([&] {
      of_teacher[r] = to_float(whole.of_teacher);
      of_student[r] = to_float(whole.of_student);
    });
  }
};

template <typename S, typename T>
struct SupportStatisticsKernel {
  CudaDistilledRows rows;
  float* shift;
  float* sum;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (rows.student.targets[r] < 0) {
      block.one([&] { write(r, 0, 1); });
      return;
    }
    const EitherLogit map{DivergedRow::transform_of(rows.student_transforms, r)};
    const bool keeps_outside = rows.divergence.has_tail();
    const auto own = block.each([&](int thread) {
      Moments<false> moments = Moments<false>::none();
      add_pairs_of_thread(
          RowAccess<S>{rows.student}.row(r), RowAccess<T>{rows.teacher}.row(r),
          rows.student.columns, thread, block.threads(),
          [&](const auto& x, const auto& y) { add_supported(map, keeps_outside, x, y, moments); });
      return moments;
    });
    const Moments<false> whole =
        block.reduce(own, Moments<false>::none(), [](Moments<false> a, const Moments<false>& b) {
          a.add(b);
          return a;
        });
    block.one([&] { write(r, whole.max, whole.sum); });
  }

 private:
  template <int kCount>
  LOSSGRID_KERNEL static void add_supported(const EitherLogit& map, bool keeps_outside,
                                            const S (&x)[kCount], const T (&y)[kCount],
                                            Moments<false>& moments) {
    decltype(operand(S())) z[kCount];
    for (int k = 0; k < kCount; ++k) {
      z[k] = map.z(operand(x[k]));
      if ((operand(y[k]) == -infinity()) != keeps_outside) z[k] = -infinity();
    }
    moments.add_elements(z);
  }

  LOSSGRID_KERNEL void write(std::int64_t r, float max, float sum_of_row) const {
    shift[r] = max;
    sum[r] = sum_of_row;
  }
};

template <typename S, typename T>
struct DivergenceGradientKernel {
  CudaDistilledRows rows;
  RowSoftmax p;
  RowSoftmax q;
  const float* of_student;
  const float* gradient;
  void* out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    S* to = static_cast<S*>(out) + r * rows.student.width;
    if (gradient[r] == 0) {
      write_zeros(block, to, 0, rows.student.width);
      return;
    }
    const DivergedRow row(rows, p, q, r);
    const bool is_jsd = rows.divergence.kind == Divergence::Kind::jsd;
    const float scale = gradient[r] * (is_jsd ? row.student_weight : 1.0f);
    const auto element = [&](S x, T y) {
      S result;
      store(scale * by_logit(row, of_student[r], x, y), result);
      return result;
    };
    block.run([&](int thread) { write_row(r, to, thread, block.threads(), element); });
    write_zeros(block, to, rows.student.columns, rows.student.width);
  }

 private:
  /// Returns the gradient by x of a divergence whose weight is 1.
  LOSSGRID_KERNEL float by_logit(const DivergedRow& row, float mean, S x, T y) const {
    const DivergedColumn column = row.column(x, y);
    if (column.student == -infinity()) return 0;
    float by_z = 0;
    if (rows.divergence.is_clamped()) {
      by_z = mean * column.p - row.clamped_column(column.student, y).q_left;
    } else if (rows.divergence.kind == Divergence::Kind::forward) {
      by_z = row.outside.mass * column.p - column.q;
    } else if (rows.divergence.kind == Divergence::Kind::mixed) {
      by_z = row.teacher_weight * (row.outside.mass * column.p - column.q) +
             row.student_weight * product_or_zero(column.p, column.log_ratio - mean);
    } else if (rows.divergence.kind == Divergence::Kind::reverse) {
      by_z = product_or_zero(column.p, column.log_ratio - mean);
    } else {
      by_z = product_or_zero(column.p, row.logs_by_mixture(column.log_ratio).of_p - mean);
    }
    return by_z * to_float(row.student.slope(row.student.z(operand(x))));
  }

  /// Writes one thread's elements, perhaps over elements that it has read.
  template <typename Element>
  LOSSGRID_KERNEL void write_row(std::int64_t r, S* to, int thread, int threads,
                                 Element&& element) const {
    constexpr int kCount = kPairCount<S, T>;
    constexpr int kVectors = kCount / kVectorSize<S>;
    const S* student = RowAccess<S>{rows.student}.row(r);
    const T* teacher = RowAccess<T>{rows.teacher}.row(r);
    const RowVectors<S> of_student_row(student);
    const RowVectors<T> of_teacher_row(teacher);
    const bool aligned = is_aligned(to);
    const std::int64_t columns = rows.student.columns;
    const std::int64_t groups = columns / kCount;
    for (std::int64_t group = thread; group < groups; group += threads) {
      S x[kCount];
      T y[kCount];
      load_group<kCount>(of_student_row, group, 0, x);
      load_group<kCount>(of_teacher_row, group, 0, y);
      for (int k = 0; k < kVectors; ++k) {
        Vector<S> result;
        for (int i = 0; i < kVectorSize<S>; ++i) {
          const int at = k * kVectorSize<S> + i;
          result.items[i] = element(x[at], y[at]);
        }
        store_vector(to, aligned, group * kVectors + k, result);
      }
    }
    for (std::int64_t k = groups * kCount + thread; k < columns; k += threads) {
      store_element(to, k, element(load_element(student, k), load_element(teacher, k)));
    }
  }
};

// Launches (launch.h), for each pair of dtypes.

/// Calls f(element of the student, element of the teacher).
template <typename F>
void dispatch_pair(const CudaDistilledRows& rows, F&& f) {
  dispatch_floating(rows.student.dtype, [&](auto student) {
    dispatch_floating(rows.teacher.dtype, [&](auto teacher) { f(student, teacher); });
  });
}

struct LaunchSupportStatistics {
  static constexpr const char* kName = "support_statistics";
  CudaDistilledRows rows;
  float* shift;
  float* sum;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_pair(rows, [&](auto student, auto teacher) {
      using Kernel = SupportStatisticsKernel<decltype(student), decltype(teacher)>;
      launcher(Kernel{rows, shift, sum}, rows.student.rows, 0);
    });
  }
};

struct LaunchDivergence {
  static constexpr const char* kName = "divergence";
  CudaDistilledRows rows;
  RowSoftmax p;
  RowSoftmax q;
  float* of_teacher;
  float* of_student;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_pair(rows, [&](auto student, auto teacher) {
      using Kernel = DivergenceKernel<decltype(student), decltype(teacher)>;
      launcher(Kernel{rows, p, q, of_teacher, of_student}, rows.student.rows, 0);
    });
  }
};

struct LaunchDivergenceGradient {
  static constexpr const char* kName = "divergence_gradient";
  CudaDistilledRows rows;
  RowSoftmax p;
  RowSoftmax q;
  const float* of_student;
  const float* gradient;
  void* out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    dispatch_pair(rows, [&](auto student, auto teacher) {
      using Kernel = DivergenceGradientKernel<decltype(student), decltype(teacher)>;
      launcher(Kernel{rows, p, q, of_student, gradient, out}, rows.student.rows, 0);
    });
  }
};

}  // namespace lossgrid
