// SPDX-License-Identifier: Apache-2.0
// Divergences from a teacher in plain code, for mutants that replace a formula of a row, and their
// steps with other distributions than the right ones. Steps work on host memory, on copies of what
// a GPU holds.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/row_formulas.h"
#include "impls/steps.h"

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

/// Steps::divergence, run on the host.
template <auto kStep>
void divergence_on_host(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                        const DivergenceSums& out) {
  kStep(HostDistilledRows(rows).rows(), p, q, out);
}

/// Steps::gradient of a divergence, run on the host: kStep(rows, p, q, R, gradient, out), as
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

/// The distributions that a divergence compares, and statistics that stand for those of the whole.
struct Compared {
  DistilledRows rows;
  RowSoftmax p;
  RowSoftmax q;
  std::vector<float> shift = {};
  std::vector<float> sum = {};
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

/// Takes divergence and gradient of what kChange makes of the rows and their statistics.
template <ChangeCompared kChange>
void compare_by(Steps& steps) {
  steps.divergence = divergence_on_host<divergence_of_changed<kChange>>;
  steps.gradient = divergence_gradient_on_host<gradient_of_changed<kChange>>;
}

/// One column of a row of both; p = 0 outside of the support with Divergence::on_support.
struct DistilledColumn {
  double z;  // of the student
  float p;
  float log_p;
  float q;
  float log_q;
};

/// `PlainColumns`: the columns of student and teacher, by merged statistics `p` and `q`.
class PlainColumns {
 public:
  PlainColumns(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q)
      : on_support_(rows.divergence.on_support),
        p_(p),
        q_(q),
        student_(transformed_rows(rows.student)),
        teacher_(transformed_rows(rows.teacher)) {}

  DistilledColumn at(std::int64_t r, std::int64_t v) const {
    DistilledColumn column{student_.at(r, v), 0, -infinity(), 0, -infinity()};
    set(teacher_, q_, r, v, column.q, column.log_q);
    const bool is_outside = on_support_ && std::isinf(teacher_.at(r, v));
    if (!is_outside) set(student_, p_, r, v, column.p, column.log_p);
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

  const bool on_support_;
  const RowSoftmax p_;
  const RowSoftmax q_;
  const MappedRows student_;
  const MappedRows teacher_;
};

/// Fills both sums, of term(column): a pair of what a column adds to each.
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

/// Returns ln r of a column, r being compared with its probabilities.
inline float log_of_compared(const Divergence& divergence, const DistilledColumn& column) {
  switch (divergence.kind) {
    case Divergence::Kind::forward:
      return column.log_p;
    case Divergence::Kind::reverse:
      return column.log_q;
    default: {
      const auto b = static_cast<float>(divergence.beta);
      return std::log(b * column.q + (1 - b) * column.p);
    }
  }
}

/// Returns the summands of a column in both sums by the right formula.
inline std::pair<float, float> right_terms(const Divergence& divergence,
                                           const DistilledColumn& column) {
  const float log_r = log_of_compared(divergence, column);
  const bool has_q = column.q > 0 && divergence.kind != Divergence::Kind::reverse;
  const bool has_p = column.p > 0 && divergence.kind != Divergence::Kind::forward;
  return {has_q ? column.q * (column.log_q - log_r) : 0,
          has_p ? column.p * (column.log_p - log_r) : 0};
}

/// Returns dD / dz of a column by the right formula, with R = `mean`.
inline float right_slope(const Divergence& divergence, const DistilledColumn& column, float mean) {
  if (divergence.kind == Divergence::Kind::forward) {
    return std::isinf(column.z) ? 0 : column.p - column.q;
  }
  if (column.p == 0) return 0;
  const float own = column.p * (column.log_p - log_of_compared(divergence, column) - mean);
  const bool is_reverse = divergence.kind == Divergence::Kind::reverse;
  return is_reverse ? own : static_cast<float>(1 - divergence.beta) * own;
}

}  // namespace lossgrid
