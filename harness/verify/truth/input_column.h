// SPDX-License-Identifier: Apache-2.0
// `InputColumn`: one element of the true gradient by the logits x that implementations are given,
// and its error bounds: those by the logits z of the softmax (bounds.h) times dz / dx, which has an
// error of its own (logit_transform.h). Without a transform both are the same numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "harness/problem/values/logit_transform.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/logit_gradient.h"

namespace lossgrid {

struct InputColumn {
  double want = 0;
  double computation = 0;  // error before the rounding of the result
  double objective = 0;    // error by the intervals of d loss / d numbers
  double rounding = 0;     // error by the rounding of the result
  double shared = 0;       // part of `computation` that is alike in all rows

  double bound() const { return rounding + computation + objective; }
};

/// The transform of a row and the relative error of the logits that it makes of given ones.
struct InputTransform {
  TrueRowTransform row;
  double relative_error = 0;
  double slope_error = 0;  // relative, by declared roundings of a quotient

  /// Returns the error bound of z that an implementation makes of a given logit.
  double error(double z) const { return std::isfinite(z) ? relative_error * std::abs(z) : 0.0; }
};

/// Returns the transform of row t of a problem that starts from logits.
inline InputTransform input_transform(const Problem& problem, const RowTruth& row, std::int64_t t) {
  if (problem.untransformed == nullptr) return {};
  return {problem.transform_of_row(t), transform_error(problem.transform()) + row.quotient_error,
          row.quotient_error};
}

/// Returns the error of slope x dz by that of the slope; 0 for none, also with an infinite dz.
inline double error_of_slope(double slope_error, double dz) {
  return slope_error == 0 ? 0.0 : slope_error * std::abs(dz);
}

/// Returns the error by x of numbers that vanish (bounds.h), from that by z; 0 where nothing has a
/// gradient.
inline double floor_by_x(double slope, double by_z) {
  return by_z == 0 || slope == 0 ? 0.0 : std::max(kVanishingF32, slope * by_z);
}

/// Columns of a row's divergence from a teacher for the ids of a shard; none without a teacher.
class DivergenceColumns {
 public:
  /// Reads the teacher's logits of row `token` for `count` ids from `begin` on.
  DivergenceColumns(const Problem& problem, const RowTruth& row, const Enclosure& gradient,
                    std::int64_t token, std::int64_t begin, std::int64_t count, int serial_adds)
      : truth_(row.divergence), gradient_(gradient), serial_adds_(serial_adds) {
    if (!truth_) return;
    teacher_.resize(static_cast<std::size_t>(count));
    errors_.resize(teacher_.size());
    read_teacher_row(problem, token, begin, teacher_, errors_);
  }

  bool is_any() const { return truth_.has_value(); }
  /// True if a logit of the teacher is beyond the largest float32, which may stand for it.
  bool overflows() const {
    return std::any_of(teacher_.begin(), teacher_.end(), [](double z) {
      return std::isfinite(z) && std::abs(z) > std::numeric_limits<float>::max();
    });
  }
  /// True if the columns of the row add up to 0.
  bool adds_up() const { return !truth_ || truth_->gradient_adds_up(); }

  /// Returns the column of id begin + k, whose logit is z with error `error`.
  DivergenceColumn at(std::int64_t k, double z, double error) const {
    const auto v = static_cast<std::size_t>(k);
    return divergence_column(*truth_, gradient_, serial_adds_, z, teacher_[v], error, errors_[v]);
  }

 private:
  std::optional<DivergenceTruth> truth_;
  Enclosure gradient_;
  int serial_adds_;
  std::vector<double> teacher_;
  std::vector<double> errors_;
};

/// Returns the column with logit z and probability p. `given_want`: the element in place of that of
/// `gradient`, if it is not null. `divergence`: the part of a divergence, or null.
inline InputColumn input_column(const GradientBound& bound, const LogitGradient& gradient,
                                const InputTransform& transform, double z, double p, bool is_target,
                                const double* given_want = nullptr,
                                const DivergenceColumn* divergence = nullptr) {
  const double error = transform.error(z);
  const double slope = transform.row.slope(z);
  const DivergenceColumn distilled = divergence != nullptr ? *divergence : DivergenceColumn();
  const double by_z = gradient.at(z, p, is_target) + distilled.want;
  InputColumn column;
  column.want = given_want != nullptr ? *given_want : slope * by_z;
  column.computation =
      floor_by_x(slope, bound.row().floor + distilled.floor) +
      slope * (bound.roundings(z, p, is_target, error) + distilled.roundings) +
      error_of_slope(transform.row.slope_error(z, error) + transform.slope_error * slope, by_z);
  column.objective = slope * (bound.objective(z, p, is_target) + distilled.objective);
  column.rounding = bound.row().u_out * (std::abs(column.want) + column.objective);
  return column;
}

}  // namespace lossgrid
