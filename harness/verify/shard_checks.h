// SPDX-License-Identifier: Apache-2.0
// Compares what one rank made with the truth: its log-probabilities, its loss and metrics, and
// every element of its gradient shard. Also counts what must never be there: elements that were not
// written, and anything but zero in masked rows and padding columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/check.h"
#include "harness/verify/declared_roundings.h"
#include "harness/verify/failed_elements.h"
#include "harness/verify/row_places.h"
#include "harness/verify/truth.h"

namespace lossgrid {

/// True when the log-probability of this row has a truth: it predicts something, its logits are not
/// poisoned, and a probability can be made of them (no NaN, not -inf alone).
bool has_logprob(const Problem& problem, const RowTruth& row);

/// "logprobs" and, where there are row statistics, "entropy", "vocab_min" and "vocab_max": what an
/// implementation returned for the rows at `places`. Only of what is in `outputs`.
std::vector<Check> check_tokens(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const TokenOutputs& all,
                                const Outputs& outputs, int serial_adds, std::int64_t rank);

/// "loss" and "metric.NAME" for every metric of the truth; a metric that is missing, that nobody
/// asked for or that joins by another rule fails. Within the truth's interval and one rounding of
/// the result to float32, or what is declared of a loss; counts and numbers of the global batch are
/// exact. Only of what is in `outputs`: a metric that is not is one that nobody asked for.
std::vector<Check> check_result(const ObjectiveTruth& truth, const ObjectiveResult& got,
                                const Outputs& outputs, std::int64_t rank,
                                const DeclaredRoundings& declared = {});

/// The step to the next number of a dtype where that is infinite: 0 times it is 0.
inline constexpr double kLongestStep = 1e300;

/// Sums for the bias check |<out, truth> / <rounded truth, truth> - 1|: they add up over ranks.
struct BiasSums {
  double out_truth = 0;
  double rounded_truth = 0;
  double truth_squared = 0;
  double computation_squared = 0;  // sum over rows of (sum of computation bounds x |truth|)^2
  double shared = 0;               // sum over elements of what many of them may share x |truth|
  void add(const BiasSums& other);

  /// One element `out` with its truth. `baseline` is the truth after roundings that are known,
  /// before that of the result to `dtype`; `shared_bound` is what elements may share,
  /// `computation` what else may be added, whose square the caller adds.
  void add_element(DType dtype, double out, double truth, double baseline, double computation,
                   double shared_bound);

  /// <out, truth> / <truth, truth>: 1 where the gradient is right, c where it is c times the truth.
  /// None where the truth is zero or a sum is not finite.
  std::optional<double> scale() const;
};

/// A scale error that no single element shows. The truth is rounded to the dtype of the gradient
/// first: rows with nearly the same gradient have the same rounding error, and an error of rounding
/// to nearest is no bias of the implementation. What is left are errors of the computation, shared
/// by a row and independent between rows (three times the root of their summed squares), and what
/// rows may share and so adds up: the interval of the objective, the floor of the bound under which
/// numbers vanish, and the step to the next number of the dtype where an element is that close to
/// the middle. Nothing is compared when the gradient is zero. `name`: of the check,
/// "grad_logits_bias".
Check check_bias(const BiasSums& sums, const std::string& name);

struct GradientFindings {
  Check elements{"grad_logits"};
  FailedElements failed;
  BiasSums bias;
  std::int64_t trained_rows = 0;       // that take part in the loss
  std::int64_t not_written = 0;        // still the poison pattern
  std::int64_t nonzero_masked = 0;     // in the other rows
  std::int64_t nonzero_padding = 0;    // in padding columns
  ElementPlace first_misplaced;        // of the first element counted in one of the three
  std::vector<double> row_sums;        // [rows] over this shard's columns
  std::vector<double> row_sum_bounds;  // [rows]

  bool any_misplaced() const { return not_written + nonzero_masked + nonzero_padding > 0; }
};

/// `gradient` [places.size(), shard width] in the problem's dtype. On the threads of the rank
/// (rank_threads.h); findings do not depend on how many they are.
GradientFindings check_gradient(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const VocabShard& shard,
                                const void* gradient, int serial_adds, std::int64_t rank);

}  // namespace lossgrid
