// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/linear_checks.h"

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/verify/checks/unwritten.h"
#include "harness/verify/truth/linear_bounds.h"

namespace lossgrid {

void LinearFindings::add(const LinearFindings& other) {
  if (not_written + nonzero_masked == 0) first_misplaced = other.first_misplaced;
  elements.merge(other.elements);
  l2.merge(other.l2);
  failed.add(other.failed);
  bias.add(other.bias);
  error_squared += other.error_squared;
  want_squared += other.want_squared;
  not_written += other.not_written;
  nonzero_masked += other.nonzero_masked;
}

namespace {

constexpr std::int64_t kBlockRows = 64;

/// Columns of the rows of a gradient [rows, factors].
struct Columns {
  std::int64_t factors;
  std::int64_t begin;
  std::int64_t end;
};

/// Comparison of one gradient, row by row.
class RowComparison {
 public:
  RowComparison(const LinearRows& rows, const Columns& columns, const LinearBound& bound, DType out,
                LinearFindings& findings)
      : rows_(rows), columns_(columns), bound_(bound), out_(out), findings_(findings) {}

  /// Compares row `row` of `rows`; got(h) and before(h) return element h of the result and of the
  /// buffer before.
  template <typename Got, typename Before>
  void compare(std::int64_t row, const ElementPlace& place, Got&& got, Before&& before) {
    if (block_rows_ == 0) block_place_ = place;
    const std::int64_t nan = findings_.failed.nan;
    for (std::int64_t h = columns_.begin; h < columns_.end; ++h) {
      compare_element(static_cast<std::size_t>(row * columns_.factors + h), got(h), before(h),
                      place);
    }
    block_rounding_ += row_mean_square_;
    block_rounding_squared_ += row_mean_square_ * row_mean_square_;
    row_mean_square_ = 0;
    findings_.bias.computation_squared += row_rounding_ * row_rounding_;
    row_rounding_ = 0;
    if (findings_.failed.nan > nan) findings_.failed.add_nan_row(rows_.rows[row]);
    if (++block_rows_ == kBlockRows) finish_block();
  }

  /// Compares the open block. Call it after the last row.
  void finish_block() {
    if (block_rows_ == 0) return;
    findings_.l2.add(std::sqrt(block_error_), 0, independent_l2() + std::sqrt(block_common_),
                     block_place_);
    findings_.error_squared += block_error_;
    block_rows_ = 0;
    block_error_ = block_independent_ = block_common_ = 0;
    block_rounding_ = block_rounding_squared_ = 0;
  }

 private:
  /// Returns the bound of the independent roundings of the block.
  double independent_l2() const {
    const double most = std::sqrt(block_independent_);
    if (!bound_.is_rounded_once() || block_rounding_ == 0) return most;
    const double rows = block_rounding_ * block_rounding_ / block_rounding_squared_;
    return std::min(most, std::sqrt(block_rounding_ * (1 + 3 * std::sqrt(2 / rows))));
  }

  void compare_element(std::size_t at, double got, double before, const ElementPlace& place) {
    const double want = rows_.want[at];
    const double value = got - before;
    const std::int64_t failed = findings_.elements.beyond_bound();
    findings_.elements.add(value, want, bound_.element(rows_, at, want, before), place);
    if (findings_.elements.beyond_bound() > failed) {
      findings_.failed.add(value, want, got, out_);
    }

    const double independent = bound_.independent(rows_, at, want);
    const double common = bound_.common(rows_, at, before);
    block_error_ += (value - want) * (value - want);
    block_independent_ += independent * independent;
    block_common_ += common * common;
    findings_.want_squared += want * want;

    row_mean_square_ += bound_.mean_square_rounding(rows_, at, want);

    const double products = bound_.products(rows_, at, before);
    const double logits = bound_.logits(rows_, at);
    const double parts = bound_.parts(rows_, at);
    const double random = (bound_.grad_logits(rows_, at) + products + parts) * want;
    findings_.bias.computation_squared += random * random;
    row_rounding_ += logits * std::abs(want);
    findings_.bias.add_element(out_, value, want, bound_.baseline(rows_, at),
                               products + parts + logits,
                               bound_.floor() + bound_.radius(rows_, at));
  }

  const LinearRows& rows_;
  Columns columns_;
  const LinearBound& bound_;
  DType out_;
  LinearFindings& findings_;
  std::int64_t block_rows_ = 0;
  ElementPlace block_place_;
  double row_rounding_ = 0;     // rounding of logits, shared by a row, times |truth|
  double row_mean_square_ = 0;  // mean square of a row's roundings, if every element has one
  double block_error_ = 0;      // sum of squares
  double block_independent_ = 0;
  double block_common_ = 0;
  double block_rounding_ = 0;  // sum of the rows' mean squares
  double block_rounding_squared_ = 0;
};

/// Counts misplaced elements: unwritten elements and, in rows that take no part in the loss,
/// nonzero elements.
template <typename T>
void count_misplaced(const T* got, std::int64_t size, bool takes_part, const ElementPlace& place,
                     LinearFindings& findings) {
  for (std::int64_t h = 0; h < size; ++h) {
    const bool unwritten = is_unwritten(got[h]);
    if (!unwritten && (takes_part || static_cast<double>(got[h]) == 0)) continue;
    if (findings.not_written + findings.nonzero_masked == 0) findings.first_misplaced = place;
    ++(unwritten ? findings.not_written : findings.nonzero_masked);
  }
}

void require_size(const char* what, std::span<const double> values, std::size_t size) {
  if (values.size() == size) return;
  throw Error(ErrorCode::internal,
              fmt::format("{} elements of the gradient of the weight {}, not {}", values.size(),
                          what, size));
}

}  // namespace

LinearFindings check_grad_hidden(const Problem& problem, const Truth& truth,
                                 std::span<const RowPlace> places, const void* got,
                                 DType grad_logits, std::int64_t rank) {
  LinearFindings findings("grad_hidden");
  const LinearTruth& linear = *truth.linear;
  const LinearBound bound(truth, problem.spec.dtype, grad_logits, 0);
  RowComparison comparison(linear.hidden, {linear.factors, 0, linear.size}, bound,
                           problem.spec.dtype, findings);
  dispatch_floating(problem.spec.dtype, [&](auto zero) {
    const auto* values = static_cast<const decltype(zero)*>(got);
    for (const RowPlace& place : places) {
      const bool takes_part = place.row >= 0 && truth.rows[place.row].valid;
      const ElementPlace at{rank, place.sequence, place.offset};
      count_misplaced(values, linear.size, takes_part, at, findings);
      const std::int64_t row = takes_part ? linear.hidden.find(problem.whole_row(place.row)) : -1;
      if (row >= 0) {
        comparison.compare(
            row, at, [&](std::int64_t h) { return static_cast<double>(values[h]); },
            [](std::int64_t) { return 0.0; });
      }
      values += linear.size;
    }
  });
  comparison.finish_block();
  return findings;
}

namespace {

/// Compares columns of the gradient of the weight, whose last column is the gradient of a bias.
LinearFindings check_ids(const std::string& name, const Columns& columns, const Truth& truth,
                         const VocabShard& shard, std::span<const double> got,
                         std::span<const double> before, const DeclaredRoundings& declared,
                         std::int64_t rank) {
  LinearFindings findings(name);
  const LinearTruth& linear = *truth.linear;
  const std::vector<std::int64_t>& ids = linear.weight.rows;
  const std::int64_t first = std::lower_bound(ids.begin(), ids.end(), shard.begin) - ids.begin();
  const std::int64_t last = std::lower_bound(ids.begin(), ids.end(), shard.end) - ids.begin();
  const auto elements = static_cast<std::size_t>((last - first) * linear.factors);
  require_size("were made", got, elements);
  require_size("stood there", before, elements);
  const LinearBound bound = LinearBound::of_weight(truth, declared);
  RowComparison comparison(linear.weight, columns, bound, declared.weight_sum, findings);
  for (std::int64_t k = first; k < last; ++k) {
    const std::int64_t begin = (k - first) * linear.factors;
    comparison.compare(
        k, {rank, -1, -1, ids[k]}, [&](std::int64_t h) { return got[begin + h]; },
        [&](std::int64_t h) { return before[begin + h]; });
  }
  comparison.finish_block();
  return findings;
}

}  // namespace

LinearFindings check_grad_weight(const Problem& /*problem*/, const Truth& truth,
                                 const VocabShard& shard, std::span<const double> got,
                                 std::span<const double> before, const DeclaredRoundings& declared,
                                 std::int64_t rank) {
  const LinearTruth& linear = *truth.linear;
  return check_ids("grad_weight", {linear.factors, 0, linear.size}, truth, shard, got, before,
                   declared, rank);
}

LinearFindings check_grad_bias(const Problem& /*problem*/, const Truth& truth,
                               const VocabShard& shard, std::span<const double> got,
                               std::span<const double> before, const DeclaredRoundings& declared,
                               std::int64_t rank) {
  const LinearTruth& linear = *truth.linear;
  return check_ids("grad_bias", {linear.factors, linear.size, linear.factors}, truth, shard, got,
                   before, declared, rank);
}

}  // namespace lossgrid
