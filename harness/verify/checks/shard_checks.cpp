// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/shard_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "harness/core/clock.h"
#include "harness/core/stage_clock.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/verify/checks/gradient_columns.h"
#include "harness/verify/checks/unwritten.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/input_column.h"
#include "harness/verify/truth/logit_gradient.h"

namespace lossgrid {

void BiasSums::add(const BiasSums& other) {
  out_truth += other.out_truth;
  rounded_truth += other.rounded_truth;
  truth_squared += other.truth_squared;
  computation_squared += other.computation_squared;
  shared += other.shared;
}

void BiasSums::add_element(DType dtype, double out, double truth, double baseline,
                           double computation, double shared_bound) {
  const double rounded = round_to(dtype, baseline);
  const double slack = computation + shared_bound;
  const double step = std::max(std::abs(round_to(dtype, baseline + slack) - rounded),
                               std::abs(round_to(dtype, baseline - slack) - rounded));
  out_truth += out * truth;
  rounded_truth += rounded * truth;
  truth_squared += truth * truth;
  shared += (shared_bound + std::max(0.0, std::min(step, kLongestStep) - slack)) * std::abs(truth);
}

std::optional<double> BiasSums::scale() const {
  const double scale = out_truth / truth_squared;
  if (!(truth_squared > 0) || !std::isfinite(truth_squared) || !std::isfinite(scale)) {
    return std::nullopt;
  }
  return scale;
}

Check check_bias(const BiasSums& sums, const std::string& name) {
  Check check(name);
  if (sums.rounded_truth == 0) return check;
  constexpr double kDeviations = 3;
  const double bound =
      (kDeviations * std::sqrt(sums.computation_squared) + sums.shared) / sums.rounded_truth;
  check.add(sums.out_truth / sums.rounded_truth, 1.0, bound, {});
  return check;
}

namespace {

/// Comparison of one thread's rows of a gradient.
class GradientComparison {
 public:
  GradientComparison(const Problem& problem, const Truth& truth, const VocabShard& shard,
                     int serial_adds, std::int64_t rank)
      : problem_(problem),
        truth_(truth),
        shard_(shard),
        serial_adds_(serial_adds),
        rank_(rank),
        logits_(static_cast<std::size_t>(shard.valid())) {}

  template <typename T>
  void compare_row(const RowPlace& place, const T* got) {
    const bool takes_part = place.row >= 0 && truth_.rows[place.row].valid;
    row_bias_.push_back({});
    const std::int64_t nan = findings_.failed.nan;
    findings_.row_sums.push_back(0);
    findings_.row_sum_bounds.push_back(0);
    if (takes_part) {
      ++findings_.trained_rows;
      compare_trained_row(place, got);
    } else {
      count_unless_zero(place, got, 0, shard_.valid(), findings_.nonzero_masked);
    }
    count_unless_zero(place, got, shard_.valid(), shard_.width, findings_.nonzero_padding);
    if (findings_.failed.nan > nan) findings_.failed.add_nan_row(problem_.whole_row(place.row));
  }

  std::int64_t reading_ns() const { return reading_ns_; }

  /// Appends its findings to the findings about earlier rows.
  void append_to(GradientFindings& findings) const {
    findings.elements.merge(findings_.elements);
    findings.failed.add(findings_.failed);
    for (const BiasSums& row : row_bias_) findings.bias.add(row);
    if (!findings.any_misplaced()) findings.first_misplaced = findings_.first_misplaced;
    findings.trained_rows += findings_.trained_rows;
    findings.not_written += findings_.not_written;
    findings.nonzero_masked += findings_.nonzero_masked;
    findings.nonzero_padding += findings_.nonzero_padding;
    append(findings_.row_sums, findings.row_sums);
    append(findings_.row_sum_bounds, findings.row_sum_bounds);
  }

 private:
  static constexpr std::int64_t kColumns = 512;  // columns in one call of compare_columns

  /// A row that takes part in the loss, with its truth and bound.
  template <typename T>
  struct TrainedRow {
    const RowPlace& place;
    const T* got;
    const RowTruth& truth;
    RowGradientTruth grad;
    LogitGradient gradient;
    GradientBound bound;
    InputTransform transform;
    DivergenceColumns divergence;
    bool teacher_overflows;
    std::int64_t target;  // column of the target, possibly outside of this shard
  };

  /// An element of the truth.
  struct Column {
    std::int64_t v = 0;  // of this shard
    double p = 0;
    InputColumn truth;
  };

  static void append(const std::vector<double>& from, std::vector<double>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  template <typename T>
  void compare_trained_row(const RowPlace& place, const T* got) {
    const std::int64_t start = steady_clock_ns();
    problem_.logits->read(place.row, shard_.begin, std::span<double>(logits_));
    reading_ns_ += steady_clock_ns() - start;
    const TrainedRow<T> row = trained_row(place, got);
    if (row.bound.is_unbounded()) return compare_unbounded_row(row);
    if (problem_.untransformed != nullptr || !row.divergence.adds_up()) {
      return compare_row_of_any_sum(row);
    }
    if (!row.grad.logprob_alone()) return compare_row_with_terms(row);
    GradientColumnSums sums;
    const std::int64_t end = shard_.valid();
    const bool owns = row.target >= 0 && row.target < end;
    for (std::int64_t begin = 0; begin < end;) {
      const std::int64_t stop = owns && begin <= row.target ? row.target : end;
      const std::int64_t next = std::min(begin + kColumns, stop);
      if (begin < next) compare_block(row, begin, next, sums);
      begin = next;
      if (owns && begin == row.target) compare_plainly(row, begin++, sums);
    }
    BiasSums& bias = row_bias_.back();
    bias.out_truth += sums.out_truth;
    bias.rounded_truth += sums.rounded_truth;
    bias.truth_squared += sums.truth_squared;
    // The sum of |truth| is at most 2 |g|.
    finish_row(row, sums, 2 * std::abs(row.grad.logprob.value));
  }

  /// Compares a row whose loss depends on row terms, element by element.
  template <typename T>
  void compare_row_with_terms(const TrainedRow<T>& row) {
    GradientColumnSums sums;
    double magnitude = 0;
    for (std::int64_t v = 0; v < shard_.valid(); ++v) {
      const Column column = compare_plainly(row, v, sums);
      sums.values -= row.gradient.row_sum() * column.p;
      sums.bounds += row.bound.row_sum_objective(column.p);
      magnitude += std::abs(column.truth.want);
    }
    finish_row(row, sums, magnitude);
  }

  /// Compares element by element a row in which neither the gradient nor the errors of the
  /// objective add up to 0: the slopes of transformed logits differ by column, and an infinite
  /// divergence has columns without a gradient.
  template <typename T>
  void compare_row_of_any_sum(const TrainedRow<T>& row) {
    GradientColumnSums sums;
    double magnitude = 0;
    for (std::int64_t v = 0; v < shard_.valid(); ++v) {
      const InputColumn truth = compare_plainly(row, v, sums).truth;
      sums.values -= truth.want;
      sums.bounds += truth.objective;
      magnitude += std::abs(truth.want);
    }
    finish_row(row, sums, magnitude);
  }

  /// Stores the sums of a row; `magnitude` is the sum of |truth|.
  template <typename T>
  void finish_row(const TrainedRow<T>& row, const GradientColumnSums& sums, double magnitude) {
    BiasSums& bias = row_bias_.back();
    // All rows share the error of underflow.
    bias.shared +=
        sums.shared + floor_by_x(row.transform.row.factor, row.bound.row().floor) * magnitude;
    bias.computation_squared = sums.computation_times_truth * sums.computation_times_truth;
    findings_.row_sums.back() = sums.values;
    findings_.row_sum_bounds.back() = sums.bounds;
  }

  /// Returns the row with the intervals of d loss / d numbers. If a switch has several possible
  /// sides of the log-probability, or of the value, picks the largest side that holds all elements
  /// of `got`: a shard of tiny elements may be on several sides, and its bounds are part of those
  /// of a sum over all shards. If no side holds them, picks the one whose worst element is the
  /// smallest part of its bound.
  template <typename T>
  TrainedRow<T> trained_row(const RowPlace& place, const T* got) const {
    const RowGradientTruth gradient = truth_.objective.gradient(place.row);
    const auto sides = truth_.objective.grad_sides.find(place.row);
    if (sides == truth_.objective.grad_sides.end()) return row_with(place, got, gradient);
    std::optional<TrainedRow<T>> best;
    double least = 0;
    double largest = 0;
    for (const Enclosure& side : sides->second) {
      RowGradientTruth of_side = gradient;
      const bool is_value = problem_.spec.head != Head::lm;  // the one logit
      (is_value ? of_side.terms[RowTerm::logsumexp] : of_side.logprob) = side;
      TrainedRow<T> row = row_with(place, got, of_side);
      const double ratio = worst_ratio(row);
      const double size = std::abs(side.value);
      const bool both_hold = ratio <= 1 && least <= 1;
      if (best && !(both_hold ? size > largest : ratio < least)) continue;
      best.emplace(std::move(row));
      least = ratio;
      largest = size;
    }
    return *std::move(best);
  }

  template <typename T>
  TrainedRow<T> row_with(const RowPlace& place, const T* got,
                         const RowGradientTruth& gradient) const {
    const RowTruth& truth = truth_.rows[place.row];
    const DivergenceColumns divergence(problem_, truth, gradient.terms[RowTerm::divergence],
                                       place.row, shard_.begin, shard_.valid(), serial_adds_);
    return {place,
            got,
            truth,
            gradient,
            LogitGradient(truth, gradient),
            GradientBound(truth, gradient, problem_.spec.dtype, serial_adds_),
            input_transform(problem_, truth, place.row),
            divergence,
            divergence.overflows(),
            truth.target - shard_.begin};
  }

  template <typename T>
  double worst_ratio(const TrainedRow<T>& row) const {
    Check elements;
    for (std::int64_t v = 0; v < shard_.valid(); ++v) {
      const InputColumn column = true_column(row, v).truth;
      elements.add(static_cast<double>(row.got[v]), column.want, column.bound(), {});
    }
    return elements.ratio();
  }

  /// Compares element by element. Neither the sum of the row nor its part in the bias has a bound.
  template <typename T>
  void compare_unbounded_row(const TrainedRow<T>& row) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (std::int64_t v = 0; v < shard_.valid(); ++v) look_at(row, v);
    row_bias_.back() = {};
    row_bias_.back().shared = kInfinity;
    findings_.row_sum_bounds.back() = kInfinity;
  }

  template <typename T>
  void compare_block(const TrainedRow<T>& row, std::int64_t begin, std::int64_t end,
                     GradientColumnSums& sums) {
    const GradientColumns columns{
        row.bound,
        row.truth.max,
        row.truth.sum,
        row.grad.logprob.value,
        std::span<const double>(logits_).subspan(static_cast<std::size_t>(begin),
                                                 static_cast<std::size_t>(end - begin)),
        row.got + begin,
        problem_.spec.dtype};
    suspects_.clear();
    compare_columns(columns, std::min(1.0, findings_.elements.ratio()), sums, suspects_);
    findings_.elements.add_fine(end - begin - static_cast<std::int64_t>(suspects_.size()));
    for (const std::int32_t k : suspects_) look_at(row, begin + k);
  }

  /// Returns column v of the truth, by the plain formulas.
  template <typename T>
  Column true_column(const TrainedRow<T>& row, std::int64_t v) const {
    const double logit = logits_[static_cast<std::size_t>(v)];
    Column column{.v = v, .p = std::exp(logit - row.truth.max) / row.truth.sum, .truth = {}};
    DivergenceColumn divergence;
    if (row.divergence.is_any()) {
      divergence = row.divergence.at(v, logit, row.transform.error(logit));
    }
    column.truth = input_column(row.bound, row.gradient, row.transform, logit, column.p,
                                v == row.target, nullptr, &divergence);
    if (row.teacher_overflows) {
      column.truth.shared = row.transform.row.slope(logit) * divergence.roundings;
    }
    return column;
  }

  /// Compares a column by the plain formulas.
  template <typename T>
  void look_at(const TrainedRow<T>& row, std::int64_t v) {
    add(row, true_column(row, v));
  }

  /// Compares a column by the plain formulas, adds it to all sums and returns it.
  template <typename T>
  Column compare_plainly(const TrainedRow<T>& row, std::int64_t v, GradientColumnSums& sums) {
    const Column column = true_column(row, v);
    const InputColumn& truth = column.truth;
    add(row, column);
    const double value = static_cast<double>(row.got[v]);
    sums.values += value;
    sums.bounds += truth.rounding + truth.computation;
    sums.computation_times_truth += truth.computation * std::abs(truth.want);
    row_bias_.back().add_element(problem_.spec.dtype, value, truth.want, truth.want,
                                 truth.computation, truth.objective + truth.shared);
    return column;
  }

  template <typename T>
  void add(const TrainedRow<T>& row, const Column& column) {
    const std::int64_t v = column.v;
    const double want = column.truth.want;
    const ElementPlace here{rank_, row.place.sequence, row.place.offset, shard_.begin + v};
    if (is_unwritten(row.got[v])) misplaced(findings_.not_written, here);
    const auto value = static_cast<double>(row.got[v]);
    const std::int64_t failed = findings_.elements.beyond_bound();
    findings_.elements.add(value, want, column.truth.bound(), here);
    if (findings_.elements.beyond_bound() > failed && !is_unwritten(row.got[v])) {
      findings_.failed.add(value, want, value, problem_.spec.dtype);
    }
  }

  template <typename T>
  void count_unless_zero(const RowPlace& place, const T* got, std::int64_t begin, std::int64_t end,
                         std::int64_t& counter) {
    for (std::int64_t v = begin; v < end; ++v) {
      const ElementPlace here{rank_, place.sequence, place.offset, shard_.begin + v};
      if (is_unwritten(got[v])) {
        misplaced(findings_.not_written, here);
      } else if (!(static_cast<double>(got[v]) == 0)) {
        misplaced(counter, here);
      }
    }
  }

  void misplaced(std::int64_t& counter, const ElementPlace& here) {
    if (!findings_.any_misplaced()) findings_.first_misplaced = here;
    ++counter;
  }

  const Problem& problem_;
  const Truth& truth_;
  const VocabShard& shard_;
  int serial_adds_;
  std::int64_t rank_;
  GradientFindings findings_;
  std::vector<BiasSums> row_bias_;  // by row, as a total must not depend on threads
  std::vector<double> logits_;
  std::vector<std::int32_t> suspects_;
  std::int64_t reading_ns_ = 0;
};

}  // namespace

GradientFindings check_gradient(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const VocabShard& shard,
                                const void* gradient, int serial_adds, std::int64_t rank) {
  std::vector<GradientComparison> parts;
  const int threads = rank_threads();
  parts.reserve(static_cast<std::size_t>(threads));
  for (int part = 0; part < threads; ++part) {
    parts.emplace_back(problem, truth, shard, serial_adds, rank);
  }
  const auto rows = static_cast<std::int64_t>(places.size());
  dispatch_floating(problem.spec.dtype, [&](auto zero) {
    const auto* got = static_cast<const decltype(zero)*>(gradient);
    parallel_for(threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        for (std::int64_t k = rows * part / threads; k < rows * (part + 1) / threads; ++k) {
          parts[static_cast<std::size_t>(part)].compare_row(places[static_cast<std::size_t>(k)],
                                                            got + k * shard.width);
        }
      }
    });
  });
  GradientFindings findings;
  std::int64_t reading_ns = 0;
  for (const GradientComparison& part : parts) {
    part.append_to(findings);
    reading_ns = std::max(reading_ns, part.reading_ns());
  }
  reassign_stage_time(Stage::generate, reading_ns);
  return findings;
}

}  // namespace lossgrid
