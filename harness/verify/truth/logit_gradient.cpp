// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/logit_gradient.h"

#include <algorithm>
#include <limits>

namespace lossgrid {

LogitGradient::LogitGradient(const RowTruth& row, const RowGradientTruth& gradient)
    : row_(row), logprob_alone_(gradient.logprob_alone()), logprob_(gradient.logprob.value) {
  const auto add = [](double size, double slope, double& sum) {
    if (slope != 0) sum += size * slope;
  };
  for (const RowTerm term : kAllGradientTerms) {
    const double size = gradient.terms[term].value;
    const TermSlope slope = row.slope(term);
    add(-size, slope.centred, entropy_);
    add(size, slope.factor, factor_);
    add(size, slope.finite, of_finite_);
    add(size, slope.factor + slope.finite * row.finite_share(), row_sum_);
  }
  of_finite_ /= row.vocab;
}

double LogitGradient::at(double z, double p, bool is_target) const {
  // Written as 1 - p_y it would cancel when the label is certain.
  const double of_logprob = is_target ? logprob_ * (row_.others / row_.sum) : -logprob_ * p;
  if (logprob_alone_ || z == -std::numeric_limits<double>::infinity()) return of_logprob;
  return of_logprob + p * (factor_ - entropy_ * row_.centred_logprob(z, p)) + of_finite_;
}

void LogitGradient::write(std::span<const double> z, std::span<const double> p, std::int64_t begin,
                          std::span<double> out) const {
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = at(z[k], p[k], begin + static_cast<std::int64_t>(k) == row_.target);
  }
}

double LogitGradient::own_slope(double z, double p) const {
  return p * (factor_ - logprob_ - entropy_ * (1 + row_.centred_logprob(z, p)));
}

double LogitGradient::squared_change(double z, double p, double error,
                                     const LogitRoundings& roundings) const {
  if (logprob_alone_) {
    const double slope = logprob_ * p;
    const double of_others = roundings.squares - 2 * p * error * error;
    return slope * slope * std::max(0.0, error * error + of_others);
  }
  const double t = own_slope(z, p);
  const double hp = entropy_ * p;
  // The sum over all u as if they were others, and what the own one adds.
  const double of_all = t * t * roundings.squares - 2 * t * hp * roundings.centred +
                        hp * hp * roundings.centred_squares;
  const double as_other = -p * (t - hp * row_.centred_logprob(z, p));
  return std::max(0.0, of_all + error * error * (t * t + 2 * t * as_other));
}

}  // namespace lossgrid
