// SPDX-License-Identifier: Apache-2.0
// Comparison of every element of a rank's gradient shard with the truth. Also counts misplaced
// elements: unwritten elements, and nonzero elements in masked rows and padding columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/checks/check.h"
#include "harness/verify/checks/failed_elements.h"
#include "harness/verify/checks/row_places.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Largest step to the next number of a dtype. It is finite, so that 0 times the step is 0.
inline constexpr double kLongestStep = 1e300;

/// Sums for the bias check |<out, truth> / <rounded truth, truth> - 1|, added up over ranks.
struct BiasSums {
  double out_truth = 0;
  double rounded_truth = 0;
  double truth_squared = 0;
  double computation_squared = 0;  // sum over rows of (sum of computation bounds x |truth|)^2
  double shared = 0;               // sum over elements of the shared bound x |truth|
  void add(const BiasSums& other);

  /// Adds the element `out`. `baseline` is the truth after known roundings, before the result is
  /// rounded to `dtype`. `shared_bound` bounds the error that elements may share. `computation`
  /// bounds their other errors; the caller adds its square.
  void add_element(DType dtype, double out, double truth, double baseline, double computation,
                   double shared_bound);

  /// Returns <out, truth> / <truth, truth>: 1 for a right gradient, c for c times the truth;
  /// nullopt if the truth is zero or a sum is not finite.
  std::optional<double> scale() const;
};

/// Returns the check of a scale error that no single element shows, named `name`
/// ("grad_logits_bias"). The truth is rounded to the dtype of the gradient first: rows with nearly
/// the same gradient have the same rounding error, and an error of rounding to nearest is no bias
/// of the implementation. The bound has two parts. Errors of the computation are shared by a row
/// and independent between rows; their part is three times the root of their summed squares. Errors
/// that rows may share add up: the interval of the objective, the floor of the bound under which
/// numbers vanish, and the step to the next number of the dtype for an element so close to the
/// middle between two numbers. Compares nothing for a gradient of zero.
Check check_bias(const BiasSums& sums, const std::string& name);

struct GradientFindings {
  Check elements{"grad_logits"};
  FailedElements failed;
  BiasSums bias;
  std::int64_t trained_rows = 0;     // rows that take part in the loss
  std::int64_t not_written = 0;      // elements that still hold the poison pattern
  std::int64_t nonzero_masked = 0;   // nonzero elements in other rows
  std::int64_t nonzero_padding = 0;  // nonzero elements in padding columns
  ElementPlace first_misplaced;      // first element in any of the three counts
  // [rows] sums over this shard's columns of the gradient minus d loss / d logsumexp times the
  // probabilities, the part that does not add up to 0 over a row.
  std::vector<double> row_sums;
  std::vector<double> row_sum_bounds;  // [rows]

  bool any_misplaced() const { return not_written + nonzero_masked + nonzero_padding > 0; }
};

/// Compares `gradient` [places.size(), shard width] in the problem's dtype, on the threads of the
/// rank (rank_threads.h). The findings do not depend on their number.
GradientFindings check_gradient(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const VocabShard& shard,
                                const void* gradient, int serial_adds, std::int64_t rank);

}  // namespace lossgrid
