// SPDX-License-Identifier: Apache-2.0
// Divergences from a teacher in plain code, for mutants that replace the formula of a row, and
// steps with wrong distributions. Steps work on host memory, which holds copies of a GPU's memory.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/row_formulas.h"
#include "impls/toolkit/steps.h"

namespace lossgrid {

inline bool distills(const LossProblem& problem) {
  return problem.has_teacher();
}

/// `HostDistilledRows`: rows of student and teacher that the host can read.
class HostDistilledRows {
 public:
  explicit HostDistilledRows(const DistilledRows& rows)
      : student_(rows.student),
        teacher_(rows.teacher),
        rows_{student_.rows(), teacher_.rows(), rows.divergence} {}

  const DistilledRows& rows() const { return rows_; }
  const HostRows& student() const { return student_; }

 private:
  HostRows student_;
  HostRows teacher_;
  DistilledRows rows_;
};

/// Runs Steps::divergence on the host.
template <auto kStep>
void divergence_on_host(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out) {
  kStep(HostDistilledRows(rows).rows(), p, q, out);
}

/// Runs Steps::gradient of a divergence on the host: kStep(rows, p, q, R, gradient, out), like
/// rows_divergence_gradient.
template <auto kStep>
void divergence_gradient_on_host(const LogitsRows& rows, const RowSoftmax& softmax,
                                 const RowGradients& gradients, void* out) {
  const HostDistilledRows host(distilled(rows));
  host.student().with_output(rows.device, out, out == rows.data, [&](void* to) {
    kStep(host.rows(), softmax.of_divergence(rows.divergence), softmax.of_teacher(),
          softmax.divergence_of_student, gradients.terms[RowTerm::divergence], to);
  });
}

/// Distributions that a divergence compares, and statistics in place of those of the whole
/// vocabulary.
struct Compared {
  DistilledRows rows;
  RowSoftmax p;
  RowSoftmax q;
  std::vector<float> shift = {};
  std::vector<float> sum = {};
  std::vector<TailRow> tails = {};
};

using ChangeCompared = void (*)(Compared&);

template <ChangeCompared kChange>
void divergence_of_changed(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                           const DivergenceSums& out) {
  Compared changed{rows, p, q};
  kChange(changed);
  rows_divergence(changed.rows, changed.p, changed.q, out);
}

template <ChangeCompared kChange>
void gradient_of_changed(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                         const float* of_student, const float* gradient, void* out) {
  Compared changed{rows, p, q};
  kChange(changed);
  rows_divergence_gradient(changed.rows, changed.p, changed.q, of_student, gradient, out);
}

/// Takes divergence and gradient after kChange has changed the rows and their statistics.
template <ChangeCompared kChange>
void compare_by(Steps& steps) {
  steps.divergence = divergence_on_host<divergence_of_changed<kChange>>;
  steps.gradient = divergence_gradient_on_host<gradient_of_changed<kChange>>;
}

/// One column of a row of student and teacher. Where the teacher has sent nothing, p = 0 with a
/// divergence on the support, and ln q is the number that ln p is compared with.
struct DistilledColumn {
  double z;  // logit of the student
  float p;
  float log_p;
  float q;
  float log_q;
};

/// `PlainColumns`: the columns of student and teacher, by merged statistics `p` and `q`.
class PlainColumns {
 public:
  PlainColumns(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q)
      : divergence_(rows.divergence),
        p_(p),
        q_(q),
        student_(transformed_rows(rows.student)),
        teacher_(transformed_rows(rows.teacher)) {}

  DistilledColumn at(std::int64_t r, std::int64_t v) const {
    DistilledColumn column{student_.at(r, v), 0, -infinity(), 0, -infinity()};
    set(teacher_, q_, r, v, column.q, column.log_q);
    const bool is_outside = std::isinf(teacher_.at(r, v));
    if (is_outside && divergence_.topk == Divergence::Topk::zero_outside) {
      column.log_q = static_cast<float>(Divergence::kLogOutside);
    }
    if (!is_outside || !divergence_.on_support()) set(student_, p_, r, v, column.p, column.log_p);
    return column;
  }

 private:
  static void set(const MappedRows& rows, const RowSoftmax& softmax, std::int64_t r, std::int64_t v,
                  float& probability, float& logarithm) {
    const double z = rows.at(r, v);
    if (std::isinf(z)) return;
    const float distance = rows.rows().dtype == DType::f64
                               ? distance_to_shift(z, softmax.shift[r])
                               : distance_to_shift(static_cast<float>(z), softmax.shift[r]);
    probability = std::exp(distance) / softmax.sum[r];
    logarithm = distance - std::log(softmax.sum[r]);
  }

  const Divergence divergence_;
  const RowSoftmax p_;
  const RowSoftmax q_;
  const MappedRows student_;
  const MappedRows teacher_;
};

/// Fills both sums; term(column) returns the pair of summands of a column.
template <typename Term>
void divergence_by(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                   const DivergenceSums& out, Term&& term) {
  const PlainColumns columns(rows, p, q);
  for (std::int64_t r = 0; r < rows.student.rows; ++r) {
    double of_teacher = 0;
    double of_student = 0;
    const bool is_read = rows.student.targets[r] >= 0;
    for (std::int64_t v = 0; is_read && v < rows.student.shard.valid(); ++v) {
      const std::pair<float, float> terms = term(columns.at(r, v));
      of_teacher += terms.first;
      of_student += terms.second;
    }
    out.of_teacher[r] = static_cast<float>(of_teacher);
    out.of_student[r] = static_cast<float>(of_student);
  }
}

/// Writes the gradient slope g dz of rows with g = gradient[r] that is not 0, and 0 elsewhere.
/// dz(r, column) is dD / dz.
template <typename Formula>
void divergence_gradient_by(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                            const float* gradient, void* out, Formula&& dz) {
  const LogitsRows& student = rows.student;
  const PlainColumns columns(rows, p, q);
  dispatch_floating(student.dtype, [&](auto zero) {
    auto* row = static_cast<decltype(zero)*>(out);
    for (std::int64_t r = 0; r < student.rows; ++r, row += student.shard.width) {
      std::fill_n(row, student.shard.width, zero);
      if (gradient[r] == 0) continue;
      for (std::int64_t v = 0; v < student.shard.valid(); ++v) {
        const DistilledColumn column = columns.at(r, v);
        store(slope_of(student, r, column.z) * gradient[r] * dz(r, column), row[v]);
      }
    }
  });
}

/// Returns ln(b q + (1 - b) p) of a column.
inline float log_of_mixture(const Divergence& divergence, const DistilledColumn& column) {
  const auto b = static_cast<float>(divergence.beta);
  return std::log(b * column.q + (1 - b) * column.p);
}

/// Returns the summands of a column in both sums by the right formula.
inline std::pair<float, float> right_terms(const Divergence& divergence,
                                           const DistilledColumn& column) {
  const bool is_jsd = divergence.kind == Divergence::Kind::jsd;
  const float log_m = is_jsd ? log_of_mixture(divergence, column) : 0;
  const bool has_q = column.q > 0 && divergence.kind != Divergence::Kind::reverse;
  const bool has_p = column.p > 0 && divergence.kind != Divergence::Kind::forward;
  return {has_q ? column.q * (column.log_q - (is_jsd ? log_m : column.log_p)) : 0,
          has_p ? column.p * (column.log_p - (is_jsd ? log_m : column.log_q)) : 0};
}

/// Returns the weight of the student's sum in D.
inline float weight_of_student(const Divergence& divergence) {
  if (divergence.kind == Divergence::Kind::forward) return 0;
  const bool is_reverse = divergence.kind == Divergence::Kind::reverse;
  return is_reverse ? 1 : static_cast<float>(1 - divergence.beta);
}

/// Returns dD / dz of a column by the right formula, with R = `mean`.
inline float right_slope(const Divergence& divergence, const DistilledColumn& column, float mean) {
  if (std::isinf(column.z)) return 0;
  const bool is_jsd = divergence.kind == Divergence::Kind::jsd;
  const float of_student = weight_of_student(divergence);
  const float forward = is_jsd ? 0 : (1 - of_student) * (column.p - column.q);
  if (of_student == 0 || column.p == 0) return forward;
  const float log_r = is_jsd ? log_of_mixture(divergence, column) : column.log_q;
  return forward + of_student * column.p * (column.log_p - log_r - mean);
}

}  // namespace lossgrid
