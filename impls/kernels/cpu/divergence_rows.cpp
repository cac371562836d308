// SPDX-License-Identifier: Apache-2.0
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
  Divergence::Topk topk;  // renormalized and tail drop columns
  TermBlock student;
  TermBlock teacher;

  DistilledRow(const DistilledRows& rows, Divergence::Topk topk, std::int64_t r)
      : of_student(rows.student, r), of_teacher(rows.teacher, r), topk(topk) {}

  void read(std::int64_t begin, std::int64_t count, float student_shift, float teacher_shift) {
    of_student.read(begin, count, student_shift, student);
    of_teacher.read(begin, count, teacher_shift, teacher);
    if (topk == Divergence::Topk::renormalized) keep_support(teacher, student);
    if (topk == Divergence::Topk::tail) keep_support<true>(teacher, student);
  }
};

/// Running sum of exponentials, relative to their maximum.
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
    using Topk = Divergence::Topk;
    DistilledRow row(rows, rows.divergence.has_tail() ? Topk::tail : Topk::renormalized, r);
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

/// Returns the kind for which columns are dropped from sums and gradient.
Divergence::Topk dropped_for(const Divergence& divergence) {
  return divergence.on_support() ? divergence.topk : Divergence::Topk::whole;
}

/// Formula of a divergence with its own loop.
template <Divergence::Kind kKind, bool kOutside>
struct PlainFormula {
  static constexpr bool kIsJsd = kKind == Divergence::Kind::jsd;

  static BlockDivergence sums(const DivergedRow& row, const TermBlock& student,
                              const TermBlock& teacher) {
    return divergence_of_block<kKind, kOutside>(row, student, teacher);
  }
  template <bool kSlope>
  static void gradient(const DivergedRow& row, const DivergenceGradient& gradient,
                       const TermBlock& teacher, TermBlock& student) {
    divergence_gradient_of_block<kKind, kOutside, kSlope>(row, gradient, teacher, student);
  }
};

struct ClampedFormula {
  static constexpr bool kIsJsd = false;

  static BlockDivergence sums(const DivergedRow& row, const TermBlock& student,
                              const TermBlock& teacher) {
    return clamped_divergence_of_block(row, student, teacher);
  }
  template <bool kSlope>
  static void gradient(const DivergedRow& row, const DivergenceGradient& gradient,
                       const TermBlock& teacher, TermBlock& student) {
    clamped_gradient_of_block<kSlope>(row, gradient, teacher, student);
  }
};

DivergedRow diverged_row(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                         std::int64_t r) {
  return {rows.divergence, p.sum[r], q.sum[r], p.tail == nullptr ? nullptr : p.tail + r};
}

template <typename Formula>
void divergence_of_rows(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out, const RowPart& part) {
  const FlushDenormals flush;
  const std::int64_t columns = rows.student.shard.valid();
  for (std::int64_t r = part.first(); r < rows.student.rows; r = part.next(r)) {
    // Float32 within a block, float64 over blocks.
    double of_teacher = 0;
    double of_student = 0;
    if (rows.student.targets[r] >= 0) {
      const DivergedRow numbers = diverged_row(rows, p, q, r);
      DistilledRow row(rows, dropped_for(rows.divergence), r);
      for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
        row.read(begin, std::min(kBlockSize, columns - begin), p.shift[r], q.shift[r]);
        const BlockDivergence block = Formula::sums(numbers, row.student, row.teacher);
        of_teacher += block.of_teacher;
        of_student += block.of_student;
      }
    }
    out.of_teacher[r] = static_cast<float>(of_teacher);
    out.of_student[r] = static_cast<float>(of_student);
  }
}

/// Writes the gradient of row r.
template <typename Formula, typename T>
void write_divergence_gradient(const DistilledRows& rows, const DivergedRow& numbers,
                               const DivergenceGradient& gradient, float student_shift,
                               float teacher_shift, std::int64_t r, T* to) {
  const std::int64_t columns = rows.student.shard.valid();
  DistilledRow row(rows, dropped_for(rows.divergence), r);
  for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
    const std::int64_t count = std::min(kBlockSize, columns - begin);
    row.read(begin, count, student_shift, teacher_shift);
    if (row.of_student.transform.limit == 0) {
      Formula::template gradient<false>(numbers, gradient, row.teacher, row.student);
    } else {
      Formula::template gradient<true>(numbers, gradient, row.teacher, row.student);
    }
    write_elements(row.student, count, to + begin);
  }
  std::fill(to + columns, to + rows.student.shard.width, T(0));
}

template <typename Formula, typename T>
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
    const DivergedRow numbers = diverged_row(rows, p, q, r);
    float scale = gradient[r] * DistanceRow(rows.student, r).transform.factor;
    if (Formula::kIsJsd) scale *= numbers.student_weight;
    write_divergence_gradient<Formula>(rows, numbers, {scale, of_student[r]}, p.shift[r],
                                       q.shift[r], r, to);
  }
}

/// Calls f(formula of the kind).
template <bool kOutside, typename F>
void with_kind(Divergence::Kind kind, F&& f) {
  using Kind = Divergence::Kind;
  switch (kind) {
    case Kind::none:
      return;
    case Kind::forward:
      return f(PlainFormula<Kind::forward, kOutside>());
    case Kind::reverse:
      return f(PlainFormula<Kind::reverse, kOutside>());
    case Kind::jsd:
      return f(PlainFormula<Kind::jsd, kOutside>());
    case Kind::mixed:
      return f(PlainFormula<Kind::mixed, kOutside>());
  }
}

template <typename F>
void with_formula(const Divergence& divergence, F&& f) {
  switch (divergence.topk) {
    case Divergence::Topk::whole:
    case Divergence::Topk::renormalized:
      return with_kind<false>(divergence.kind, f);
    case Divergence::Topk::zero_outside:
    case Divergence::Topk::tail:
      return with_kind<true>(divergence.kind, f);
    case Divergence::Topk::clamped:
      return f(ClampedFormula());
  }
}

void divergence_part(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                     const DivergenceSums& out, const RowPart& part) {
  with_formula(rows.divergence,
               [&](auto formula) { divergence_of_rows<decltype(formula)>(rows, p, q, out, part); });
}

void divergence_gradient_part(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                              const float* of_student, const float* gradient, void* out,
                              const RowPart& part) {
  with_formula(rows.divergence, [&](auto formula) {
    dispatch_floating(rows.student.dtype, [&](auto zero) {
      divergence_gradient_of_rows<decltype(formula)>(rows, p, q, of_student, gradient,
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
