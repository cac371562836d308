// SPDX-License-Identifier: Apache-2.0
// The kernels of divergence_rows.h for GPUs, one block of threads a row, and their launches. The
// formulas are those of cpu/divergence_blocks-inl.h. Kernels wait for memory, so that kinds and
// maps are chosen column by column; only the dtypes of both tensors make kernels of their own.
#pragma once

#include <algorithm>

#include "harness/problem/batch/row_terms.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/row_gradient.h"
#include "impls/kernels/transformed_logit.h"

namespace lossgrid {

/// Rows of a student and of its teacher on a device; as DistilledRows.
struct CudaDistilledRows {
  CudaRows student;
  CudaRows teacher;
  const RowTransform* student_transforms;
  const RowTransform* teacher_transforms;
  Divergence divergence;
};

/// Elements of one row that a thread takes at once: whole vectors of both tensors.
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

/// Calls add(x, y) for one thread's elements of both rows, those of a turn at once.
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

/// Returns z - shift; only a z of -inf becomes -inf.
LOSSGRID_KERNEL float finite_distance(float z, float shift) {
  constexpr float kLowest = -3.4028234663852886e38f;
  const float distance = z - shift;
  return distance < kLowest && z >= kLowest ? kLowest : distance;
}
LOSSGRID_KERNEL float finite_distance(double z, float shift) {
  return to_float(exact_distance_to_shift(z, shift));
}

/// Returns factor * log, 0 where the factor is 0.
LOSSGRID_KERNEL float product_or_zero(float factor, float log) {
  return factor == 0 ? 0.0f : factor * log;
}

/// Returns a number that has a logarithm.
LOSSGRID_KERNEL float normal_weight(double weight) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  return weight > kSmallestNormal ? static_cast<float>(weight) : kSmallestNormal;
}

/// A column of a row.
struct DivergedColumn {
  float student;  // distance, -inf where the column does not count
  float p;
  float q;
  float log_ratio;  // ln(p / q); NaN where both are 0
};

/// A column of a clamped divergence.
struct ClampedColumn {
  float q;       // 0 where the teacher has not sent the id
  float q_left;  // 0 as well where ln p is not above the clamp
  float log;     // ln q - ln p, both clamped
};

/// Returns a logarithm that is at least `least`; NaN stays.
LOSSGRID_KERNEL float clamped_log(float log, float least) {
  return log < least ? least : log;
}

struct LogsByMixture {
  float of_p;  // ln(p / m)
  float of_q;  // ln(q / m)
};

/// Numbers of a row that do not depend on the column.
struct DivergedRow {
  EitherLogit student;
  EitherLogit teacher;
  Divergence::Topk topk;
  float student_shift;
  float teacher_shift;
  float of_p;            // 1 / sum of the student
  float of_q;            // 1 / sum of the teacher
  float log_sum_ratio;   // ln of the ratio of these sums
  float teacher_weight;  // b
  float student_weight;  // 1 - b
  float log_sum;         // ln of the sum of the student
  float log_prob_min;    // of a clamped one
  // Ids that the teacher has not sent, with a tail or where ln q counts though q is 0:
  TailRow outside;  // q = ratio p, ln(p / q) = log_ratio, without a tail ln p more

  LOSSGRID_KERNEL DivergedRow(const CudaDistilledRows& rows, const RowSoftmax& softmax,
                              const RowSoftmax& of_teacher, std::int64_t r)
      : student{transform_of(rows.student_transforms, r)},
        teacher{transform_of(rows.teacher_transforms, r)},
        topk(rows.divergence.topk),
        student_shift(softmax.shift[r]),
        teacher_shift(of_teacher.shift[r]),
        of_p(1 / softmax.sum[r]),
        of_q(1 / of_teacher.sum[r]),
        log_sum_ratio(std::log(softmax.sum[r] / of_teacher.sum[r])),
        teacher_weight(normal_weight(rows.divergence.beta)),
        student_weight(normal_weight(1 - rows.divergence.beta)),
        log_sum(std::log(softmax.sum[r])),
        log_prob_min(static_cast<float>(rows.divergence.log_prob_min)) {
    outside.log_ratio = -static_cast<float>(Divergence::kLogOutside);
    if (rows.divergence.has_tail()) outside = softmax.tail[r];
  }

  LOSSGRID_KERNEL static RowTransform transform_of(const RowTransform* transforms, std::int64_t r) {
    return transforms == nullptr ? RowTransform{} : transforms[r];
  }

  template <typename S, typename T>
  LOSSGRID_KERNEL DivergedColumn column(S x, T y) const {
    const float of_teacher = finite_distance(teacher.z(operand(y)), teacher_shift);
    const bool is_outside = of_teacher == -infinity();
    const float of_student = is_outside && topk == Divergence::Topk::renormalized
                                 ? -infinity()
                                 : finite_distance(student.z(operand(x)), student_shift);
    DivergedColumn column{of_student, exp_of(of_student) * of_p, exp_of(of_teacher) * of_q,
                          (of_student - of_teacher) - log_sum_ratio};
    if (is_outside && topk == Divergence::Topk::tail) {
      column.q = column.p * outside.ratio;
      column.log_ratio = outside.log_ratio;
    } else if (is_outside && topk == Divergence::Topk::zero_outside) {
      column.log_ratio = (of_student - log_sum) + outside.log_ratio;
    }
    return column;
  }

  template <typename T>
  LOSSGRID_KERNEL ClampedColumn clamped_column(float of_student, T y) const {
    const float of_teacher = finite_distance(teacher.z(operand(y)), teacher_shift);
    const float log_p = of_student - log_sum;
    const float log_q = clamped_log(of_teacher, log_prob_min);
    const float q = of_teacher == -infinity() ? 0.0f : exp_of(log_q);
    return {q, log_p <= log_prob_min ? 0.0f : q, log_q - clamped_log(log_p, log_prob_min)};
  }

  LOSSGRID_KERNEL LogsByMixture logs_by_mixture(float log_ratio) const {
    const bool p_is_larger = log_ratio >= 0;
    const float fall = p_is_larger ? -log_ratio : log_ratio;  // ln(smaller / larger)
    const float of_larger = p_is_larger ? student_weight : teacher_weight;
    const float of_smaller = p_is_larger ? teacher_weight : student_weight;
    const float below_one = of_smaller * std::expm1(fall);
    const float log_of_larger =
        -(below_one > -0.5f ? std::log1p(below_one)
                            : std::log(of_smaller * exp_of(fall) + of_larger));
    const float log_of_smaller = fall + log_of_larger;
    return p_is_larger ? LogsByMixture{log_of_larger, log_of_smaller}
                       : LogsByMixture{log_of_smaller, log_of_larger};
  }
};

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

  /// Writes one thread's elements, perhaps over those that it has read.
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
