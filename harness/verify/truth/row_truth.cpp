// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/row_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/verify/truth/row_sums.h"
#include "harness/verify/truth/vanishing.h"

namespace lossgrid {

double beyond_float32(double logit) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!std::isfinite(logit)) return 0;
  return std::clamp(std::abs(logit) - kLargest, 0.0, kLargestOverflow);
}

void set_errors(std::span<const double> logits, std::span<const double> errors, RowTruth& row) {
  const double log_sum = std::log(row.sum);
  const double entropy = row.entropy();
  const double sum_p2 = row.sum_p2();
  double of_finite = 0;
  row.target_error = row.mean_error = row.range_error = 0;
  row.term_error = {};
  for (std::size_t v = 0; v < logits.size(); ++v) {
    const double log_p = logits[v] - row.max - log_sum;
    const double p = std::exp(log_p);
    row.range_error = std::max(row.range_error, errors[v]);
    if (!std::isinf(logits[v])) of_finite += errors[v] / row.vocab;
    if (p == 0) continue;
    row.mean_error += p * errors[v];
    row.term_error[RowTerm::entropy] += p * std::abs(log_p + entropy) * errors[v];
    row.term_error[RowTerm::sum_p2] += 2 * p * std::abs(p - sum_p2) * errors[v];
  }
  row.target_error = errors[row.target];
  row.term_error[RowTerm::mean_logprob] = of_finite + row.finite_share() * row.mean_error;
  row.term_error[RowTerm::mean_logit] = of_finite / row.finite_share();
}

namespace {

/// Adds to the errors of means what they lose where the largest float32 stands for a logit.
void add_overflow_of_means(std::span<const double> logits, RowTruth& row) {
  if (beyond_float32(row.smallest) == 0 && beyond_float32(row.max) == 0) return;
  constexpr double kLargest = std::numeric_limits<float>::max();
  double lost = 0;  // all of it: it may be as large as the mean itself
  for (const double x : logits) {
    if (std::isfinite(x)) lost += std::max(0.0, std::abs(x) - kLargest) / row.vocab;
  }
  // Below the largest float64, so that bounds, which add some roundoffs of float32, are finite.
  const double most = (1 - 0x1p-18) * std::numeric_limits<double>::max();
  row.term_error[RowTerm::mean_logprob] += std::min(lost, most);
  row.term_error[RowTerm::mean_logit] += std::min(lost / row.finite_share(), most);
}

/// True if logits have probabilities: no NaN, no inf, and not -inf alone.
bool have_probabilities(std::span<const double> logits) {
  bool all_below_infinity = true;
  bool any = false;
  for (const double x : logits) {
    all_below_infinity &= x < std::numeric_limits<double>::infinity();
    any |= x > -std::numeric_limits<double>::infinity();
  }
  return all_below_infinity && any;
}

}  // namespace

RowTruth row_truth(std::span<const double> logits, std::int32_t target,
                   std::span<const double> errors) {
  RowTruth row;
  row.target = target;
  if (!have_probabilities(logits)) {
    row.logprob = std::numeric_limits<double>::quiet_NaN();
    return row;
  }
  row.max = largest_logit(logits);
  // Without the target's term: 1 - p_y would cancel when the label is certain.
  SoftmaxSums others = softmax_sums(logits.first(static_cast<std::size_t>(target)), row.max);
  others.add(softmax_sums(logits.subspan(static_cast<std::size_t>(target) + 1), row.max));
  SoftmaxSums all = others;
  all.add(softmax_sums(logits.subspan(static_cast<std::size_t>(target), 1), row.max));
  row.others = others.exponentials;
  row.squares = all.squares;
  row.sum = all.exponentials;
  row.smallest = all.smallest;
  row.vocab = static_cast<double>(logits.size());
  row.finite = all.finite;
  row.mean_distance =
      std::min(std::numeric_limits<double>::max(), all.distances / row.vocab / kDistanceScale);
  row.spread = all.weighted / row.sum;
  row.spread_squared = all.squared / row.sum;
  row.target_logit = logits[target];
  const std::span<const double> before = logits.first(static_cast<std::size_t>(target));
  const std::span<const double> behind = logits.subspan(static_cast<std::size_t>(target) + 1);
  const double largest_before = largest_logit(before);
  row.margin = row.target_logit - std::max(largest_before, largest_logit(behind));
  row.ties_with_lower = largest_before == row.target_logit;
  row.logprob = row.target_logit - row.max - std::log(row.sum);
  if (!errors.empty()) set_errors(logits, errors, row);
  add_overflow_of_means(logits, row);
  return row;
}

double RowTruth::entropy() const {
  return std::log(sum) + spread;
}

double RowTruth::logsumexp() const {
  return max + std::log(sum);
}

double RowTruth::mean_logprob() const {
  return -mean_distance - finite_share() * std::log(sum);
}

bool RowTruth::may_change_top() const {
  double most = target_error + range_error;
  if (reads_as_float32) most += 2 * unit_roundoff(DType::f32) * std::abs(target_logit) * 1.01;
  // Kernels may read denormal numbers as zero.
  constexpr double kSmallestNormal = std::numeric_limits<float>::min();
  if (std::abs(target_logit) < 2 * kSmallestNormal) most += 2 * kSmallestNormal;
  return most > 0 && std::abs(margin) <= most;
}

bool RowTruth::may_overflow(RowTerm which) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double of_distances = vocab * mean_distance;
  switch (which) {
    case RowTerm::mean_logprob:
      return std::max(of_distances, -vocab * mean_logprob()) > kLargest;
    case RowTerm::mean_logit:
      return std::max(of_distances, -finite * mean_logit()) > kLargest;
    default:
      return false;
  }
}

double RowTruth::term(RowTerm which) const {
  switch (which) {
    case RowTerm::entropy:
      return entropy();
    case RowTerm::logsumexp:
      return logsumexp();
    case RowTerm::mean_logprob:
      return mean_logprob();
    case RowTerm::divergence:
      break;
    case RowTerm::vocab_min:
      return smallest;
    case RowTerm::vocab_max:
      return max;
    case RowTerm::sum_p2:
      return sum_p2();
    case RowTerm::top1:
      return is_top() ? 1 : 0;
    case RowTerm::mean_logit:
      return mean_logit();
  }
  return divergence ? divergence->value : std::numeric_limits<double>::quiet_NaN();
}

TermSlope RowTruth::slope(RowTerm which) const {
  switch (which) {
    case RowTerm::entropy:
      return {.centred = -1};
    case RowTerm::logsumexp:
      return {.factor = 1};
    case RowTerm::mean_logprob:
      return {.factor = -finite_share(), .finite = 1};
    default:
      return {};
  }
}

double log_sum_exp_rounding(const RowTruth& row) {
  return std::abs(4 * unit_roundoff(DType::f32) * row.max +
                  4 * unit_roundoff(DType::f32) * std::log(row.sum));
}

double offset_rounding(const RowTruth& row) {
  const bool is_allowed = row.reads_as_float32 || row.rounds_log_sum_exp;
  return is_allowed ? log_sum_exp_rounding(row) : 0.0;
}

double entropy_bound(const RowTruth& row, int serial_adds) {
  const double u32 = unit_roundoff(DType::f32);
  const double log_sum = std::abs(std::log(row.sum));
  const double b =
      8 + row.spread_squared + (1 + row.spread) * (row.spread + log_sum) + std::abs(row.entropy());
  const double of_reading = row.reads_as_float32 ? log_sum_exp_rounding(row) : 0.0;
  return kSmallestNormalF32 + u32 * (4 * b + (1 + row.spread) * serial_adds) +
         (1 + row.spread) * of_reading + row.term_error[RowTerm::entropy];
}

namespace {

/// Returns the bound of the one logit of a head without a vocabulary, which is its L: exp(0) = 1
/// and ln 1 = 0 in every library. Kernels may read denormal numbers as zero.
double single_logit_bound(const RowTruth& row) {
  const double u32 = unit_roundoff(DType::f32);
  return kSmallestNormalF32 + (row.reads_as_float32 ? u32 * std::abs(row.max) : 0.0) +
         row.mean_error;
}

}  // namespace

double logsumexp_bound(const RowTruth& row, int serial_adds) {
  if (row.vocab == 1) return single_logit_bound(row);
  const double u4 = 4 * unit_roundoff(DType::f32);
  const double b =
      u4 * (8 + row.spread + std::abs(std::log(row.sum))) + u4 * std::abs(row.logsumexp());
  return kSmallestNormalF32 + b + unit_roundoff(DType::f32) * serial_adds + row.mean_error;
}

double mean_logprob_bound(const RowTruth& row, int serial_adds) {
  const double u32 = unit_roundoff(DType::f32);
  const double b = 4 * u32 * (8 + std::abs(std::log(row.sum))) + 4 * u32 * row.mean_distance +
                   4 * u32 * std::abs(row.mean_logprob());
  const double of_adds = u32 * serial_adds + u32 * row.mean_distance * serial_adds;
  return kSmallestNormalF32 + b + of_adds + row.finite_share() * offset_rounding(row) +
         row.term_error[RowTerm::mean_logprob];
}

namespace {

/// Returns the bound of D (divergence_truth.h); 0 for an infinite one or none.
double divergence_bound(const RowTruth& row, int serial_adds) {
  if (!std::isfinite(row.divergence->value)) return 0;
  return kSmallestNormalF32 + row.divergence->value_error.at(serial_adds);
}

/// Returns the bound of the smallest or the largest logit `x` of a row, as float32. These are exact
/// except for float64 logits and for denormal numbers, which kernels may read as zero.
double range_bound(const RowTruth& row, double x, DType logits) {
  const double rounding = logits == DType::f64 ? unit_roundoff(DType::f32) * std::abs(x) : 0.0;
  return kSmallestNormalF32 + rounding + row.range_error;
}

/// Returns the bound of P.
double sum_p2_bound(const RowTruth& row, int serial_adds) {
  const double u32 = unit_roundoff(DType::f32);
  const double p2 = row.sum_p2();
  const double of_distances = row.spread / row.sum;
  const double b = 8 * p2 + 2 * of_distances + 2 * p2 * (row.spread + std::abs(std::log(row.sum)));
  return kSmallestNormalF32 + u32 * (4 * b + 3 * p2 * serial_adds) + 2 * p2 * offset_rounding(row) +
         row.term_error[RowTerm::sum_p2];
}

/// Returns the bound of the mean logit.
double mean_logit_bound(const RowTruth& row, int serial_adds) {
  const double u32 = unit_roundoff(DType::f32);
  const double distance = row.mean_distance / row.finite_share();
  const double b = 4 * u32 * 8 + 4 * u32 * distance + 4 * u32 * std::abs(row.mean_logit());
  const double of_adds = u32 * serial_adds + u32 * distance * serial_adds;
  return kSmallestNormalF32 + b + of_adds + row.term_error[RowTerm::mean_logit];
}

}  // namespace

double term_bound(const RowTruth& row, RowTerm term, int serial_adds, DType logits) {
  switch (term) {
    case RowTerm::entropy:
      return entropy_bound(row, serial_adds);
    case RowTerm::logsumexp:
      return logsumexp_bound(row, serial_adds);
    case RowTerm::mean_logprob:
      return mean_logprob_bound(row, serial_adds);
    case RowTerm::divergence:
      return divergence_bound(row, serial_adds);
    case RowTerm::vocab_min:
      return range_bound(row, row.smallest, logits);
    case RowTerm::vocab_max:
      return range_bound(row, row.max, logits);
    case RowTerm::sum_p2:
      return sum_p2_bound(row, serial_adds);
    case RowTerm::top1:
      return row.may_change_top() ? 1 : 0;
    case RowTerm::mean_logit:
      return mean_logit_bound(row, serial_adds);
  }
  return 0;
}

}  // namespace lossgrid
