// SPDX-License-Identifier: Apache-2.0
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // no server is without AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "impls/kernels/cpu/divergence_rows.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/highway.h>

#include "impls/kernels/cpu/distance_blocks-inl.h"
#include "impls/kernels/cpu/divergence_blocks-inl.h"
#include "impls/kernels/cpu/divergence_rows.h"
#include "impls/kernels/cpu/flush_denormals.h"
#include "impls/kernels/cpu/row_parts.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// The same row of both tensors, read block by block.
struct DistilledRow {
  DistanceRow of_student;
  DistanceRow of_teacher;
  bool on_support;
  TermBlock student;
  TermBlock teacher;

  DistilledRow(const DistilledRows& rows, bool on_support, std::int64_t r)
      : of_student(rows.student, r), of_teacher(rows.teacher, r), on_support(on_support) {}

  void read(std::int64_t begin, std::int64_t count, float student_shift, float teacher_shift) {
    of_student.read(begin, count, student_shift, student);
    of_teacher.read(begin, count, teacher_shift, teacher);
    if (on_support) keep_support(teacher, student);
  }
};

/// Sum of exponentials so far, relative to their maximum.
struct SupportSum {
  float shift = -std::numeric_limits<float>::infinity();
  double sum = 0;

  void raise_shift(float to) {
    if (sum != 0) sum *= std::exp(static_cast<double>(shift) - to);
    shift = to;
  }
};

void support_statistics_of_rows(const DistilledRows& rows, float* shift, float* sum,
                                const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.student.shard.valid();
  for (std::int64_t r = part.first(); r < rows.student.rows; r = part.next(r)) {
    if (rows.student.targets[r] < 0) {
      shift[r] = 0;
      sum[r] = 1;
      continue;
    }
    DistilledRow row(rows, true, r);
    SupportSum support;
    for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
      const std::int64_t count = std::min(kBlockSize, columns - begin);
      row.read(begin, count, 0, 0);  // logits, for their maximum
      const float largest = largest_of(row.student.z, row.student.size, 0);
      if (largest > support.shift) support.raise_shift(largest);
      const bool nothing = std::isinf(support.shift) && support.shift < 0;
      row.read(begin, count, nothing ? 0 : support.shift, 0);
      support.sum += exp_sums_of<false>(row.student, 0).sum;
    }
    shift[r] = support.shift;
    sum[r] = static_cast<float>(support.sum);
  }
}

template <Divergence::Kind kKind>
void divergence_of_rows(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out, const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.student.shard.valid();
  for (std::int64_t r = part.first(); r < rows.student.rows; r = part.next(r)) {
    // Float32 within a block, float64 over blocks.
    double of_teacher = 0;
    double of_student = 0;
    if (rows.student.targets[r] >= 0) {
      const DivergedRow numbers(rows.divergence, p.sum[r], q.sum[r]);
      DistilledRow row(rows, rows.divergence.on_support, r);
      for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
        row.read(begin, std::min(kBlockSize, columns - begin), p.shift[r], q.shift[r]);
        const BlockDivergence block = divergence_of_block<kKind>(numbers, row.student, row.teacher);
        of_teacher += block.of_teacher;
        of_student += block.of_student;
      }
    }
    out.of_teacher[r] = static_cast<float>(of_teacher);
    out.of_student[r] = static_cast<float>(of_student);
  }
}

/// Writes the gradient of row r.
template <Divergence::Kind kKind, typename T>
void write_divergence_gradient(const DistilledRows& rows, const DivergedRow& numbers,
                               const DivergenceGradient& gradient, float student_shift,
                               float teacher_shift, std::int64_t r, T* to) {
  const std::int64_t columns = rows.student.shard.valid();
  DistilledRow row(rows, rows.divergence.on_support, r);
  for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
    const std::int64_t count = std::min(kBlockSize, columns - begin);
    row.read(begin, count, student_shift, teacher_shift);
    if (row.of_student.transform.limit == 0) {
      divergence_gradient_of_block<kKind, false>(numbers, gradient, row.teacher, row.student);
    } else {
      divergence_gradient_of_block<kKind, true>(numbers, gradient, row.teacher, row.student);
    }
    write_elements(row.student, count, to + begin);
  }
  std::fill(to + columns, to + rows.student.shard.width, T(0));
}

template <Divergence::Kind kKind, typename T>
void divergence_gradient_of_rows(const DistilledRows& rows, const RowSoftmax& p,
                                 const RowSoftmax& q, const float* of_student,
                                 const float* gradient, T* out, const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t width = rows.student.shard.width;
  for (std::int64_t r = part.first(); r < rows.student.rows; r = part.next(r)) {
    T* to = out + r * width;
    if (gradient[r] == 0) {
      std::fill_n(to, width, T(0));
      continue;
    }
    const DivergedRow numbers(rows.divergence, p.sum[r], q.sum[r]);
    float scale = gradient[r] * DistanceRow(rows.student, r).transform.factor;
    if (kKind == Divergence::Kind::jsd) scale *= numbers.student_weight;
    write_divergence_gradient<kKind>(rows, numbers, {scale, of_student[r]}, p.shift[r], q.shift[r],
                                     r, to);
  }
}

/// Calls f(constant of the kind).
template <typename F>
void with_kind(Divergence::Kind kind, F&& f) {
  using Kind = Divergence::Kind;
  switch (kind) {
    case Kind::none:
      return;
    case Kind::forward:
      return f(std::integral_constant<Kind, Kind::forward>());
    case Kind::reverse:
      return f(std::integral_constant<Kind, Kind::reverse>());
    case Kind::jsd:
      return f(std::integral_constant<Kind, Kind::jsd>());
  }
}

void divergence_part(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                     const DivergenceSums& out, const RowPart& part) {
  with_kind(rows.divergence.kind,
            [&](auto kind) { divergence_of_rows<decltype(kind)::value>(rows, p, q, out, part); });
}

void divergence_gradient_part(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                              const float* of_student, const float* gradient, void* out,
                              const RowPart& part) {
  with_kind(rows.divergence.kind, [&](auto kind) {
    dispatch_floating(rows.student.dtype, [&](auto zero) {
      divergence_gradient_of_rows<decltype(kind)::value>(rows, p, q, of_student, gradient,
                                                         static_cast<decltype(zero)*>(out), part);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(support_statistics_of_rows);
HWY_EXPORT(divergence_part);
HWY_EXPORT(divergence_gradient_part);

void cpu_support_statistics(const DistilledRows& rows, float* shift, float* sum) {
  for_each_part(rows.student.rows, [&](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(support_statistics_of_rows)(rows, shift, sum, part);
  });
}

void cpu_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                    const DivergenceSums& out) {
  for_each_part(rows.student.rows, [&](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(divergence_part)(rows, p, q, out, part);
  });
}

void cpu_divergence_gradient(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                             const float* of_student, const float* gradient, void* out) {
  for_each_part(rows.student.rows, [&](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(divergence_gradient_part)(rows, p, q, of_student, gradient, out, part);
  });
}

}  // namespace lossgrid
#endif
