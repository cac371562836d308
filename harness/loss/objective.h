// SPDX-License-Identifier: Apache-2.0
// Objective: computation of a scalar loss, its metrics and d loss / d numbers from the numbers of
// tokens (log-probabilities and the row terms that it needs). It runs where the data is, on a
// rank's rows or on a whole pack, and is independent of the sharding of its log-probabilities. One
// call handles an array of tokens.
//
// Three steps, with a sum over CP ranks after the first and the last:
//   1. per token -> per-sequence sums [S, K]       (sequence_sums)
//   2. per sequence -> coefficients [S, C]         (coefficients)
//   3. per token -> loss terms, d loss / d numbers (token_terms), then loss and metrics (finish)
// A token-level objective has K = C = 0. Sums and terms add up over any partition of a pack, so a
// rank that holds some rows of a sequence needs one all-reduce of [S, K] and no per-token tensor.
// An objective for which all tokens of a pack decide about each of them (needs().selects) writes
// one number of each token in step 1 (selection_numbers), which CP ranks bring together, and
// selects in step 2 (select), on every rank for itself; step 3 reads who is selected.
//
// The truth is written independently of the steps: the forward formula on a tape, in float64 on the
// whole batch; its gradient comes from automatic differentiation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loss/enclosure.h"
#include "harness/loss/metric.h"
#include "harness/loss/objective_kernels.h"
#include "harness/loss/objective_option.h"
#include "harness/loss/objective_tokens.h"
#include "harness/problem/batch/input_draw.h"
#include "harness/problem/batch/objective_inputs.h"
#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {

struct ObjectiveSizes {
  int sequence_sums = 0;      // K
  int coefficients = 0;       // C
  int sums = 0;               // scalars that add up over tokens
  int maxima = 0;             // scalars of which the largest is taken (a minimum as its negative)
  int selection_numbers = 0;  // 1: select() needs one number per token
};

struct ObjectiveResult {
  double loss = 0;
  Metrics metrics;
};

/// Intervals of a row's outputs, the inputs of the truth.
struct TokenTruth {
  Enclosure logprob;
  ByRowTerm<Enclosure> terms = {};
};

/// Intervals of d loss / d numbers of one row.
struct RowGradientTruth {
  Enclosure logprob;
  ByGradientTerm<Enclosure> terms = {};

  bool logprob_alone() const {
    return std::all_of(terms.begin(), terms.end(),
                       [](const Enclosure& x) { return x.is_exact() && x.value == 0; });
  }
};

struct MetricTruth {
  Reduction reduction = Reduction::sum;
  Enclosure amount;
  double count = 1;
  bool is_derived = false;  // from Objective::add_derived; parts of a batch have no such number

  /// See Metric::value.
  std::optional<Enclosure> value() const;
};

struct ObjectiveTruth {
  Enclosure loss;
  std::vector<Enclosure> grad_logprob;  // [T_pad] by row
  // [T_pad] by row, for each row term; empty if the loss does not depend on the term.
  ByGradientTerm<std::vector<Enclosure>> grad_terms = {};
  // Intervals of all sides, by row whose logprob (or value, without a vocabulary) may be on either
  // side of a switch of the formula, such as a clip bound. A right gradient is in one of the
  // intervals; grad_logprob, or the value's interval in grad_terms, holds all of them.
  std::map<std::int64_t, std::vector<Enclosure>> grad_sides;
  std::map<std::string, MetricTruth> metrics;
  // Number of valid tokens that took each branch of the formula; of valid sequences for names that
  // start with "sequence_", of pairs of valid sequences for names that start with "pairs_".
  std::map<std::string, std::int64_t> branches;

  /// Returns d loss / d numbers of a row.
  RowGradientTruth gradient(std::int64_t row) const;

  /// Returns the counts as shares of all valid tokens, sequences or pairs of `batch`, without
  /// shares of empty sets.
  std::map<std::string, double> branch_shares(const PackedBatch& batch) const;
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual std::string_view kind() const = 0;
  const ObjectiveNeeds& needs() const { return needs_; }
  /// Returns true for numbers of a row, other than its log-probability, on which loss and gradient
  /// depend; false for numbers that only metrics read.
  virtual bool loss_reads(RowTerm term) const { return needs_.reads(term); }
  virtual ObjectiveSizes sizes() const = 0;
  /// True if the loss is linear in the numbers of tokens: d loss / d numbers does not depend on the
  /// numbers, so that a gradient can be made before the forward pass is over.
  virtual bool linear() const { return false; }

  /// Returns the rule that draws inputs for a case; null for an objective that needs neither inputs
  /// nor rewards.
  virtual std::shared_ptr<const InputDraw> input_draw() const { return nullptr; }

  /// Throws bad_input if the whole batch breaks a rule of the objective.
  virtual void require(const PackedBatch& /*batch*/) const {}

  /// Returns a pack's part of a number that is summed over the global batch before the first
  /// microbatch, like counts; it depends on the inputs alone. Used if needs().input_sum.
  virtual double input_sum(const PackedBatch& /*batch*/) const { return 0; }

  /// Returns a weight for each of `rows` of the batch. Used if needs().token_weights.
  virtual std::vector<float> token_weights(const PackedBatch& /*batch*/,
                                           const ShiftedBatch& /*rows*/) const {
    return {};
  }

  /// Step 1: adds the terms of `tokens` to `sums` [S, K].
  virtual void sequence_sums(const ObjectiveTokens& /*tokens*/, const PackedBatch& /*batch*/,
                             SequenceTable<double> /*sums*/) const {}

  /// Step 2: from the sums of whole sequences, writes `coefficients` [S, C].
  virtual void coefficients(const PackedBatch& /*batch*/, SequenceTable<const double> /*sums*/,
                            SequenceTable<double> /*coefficients*/) const {}

  /// Step 1, if sizes().selection_numbers is 1: for each valid token of `tokens` writes its number
  /// to numbers[place of the token].
  virtual void selection_numbers(const ObjectiveTokens& /*tokens*/,
                                 std::span<double> /*numbers*/) const {}

  /// Step 2, if needs().selects: sets `selected` to 1 for selected rows, else to 0. Arrays are by
  /// row of the padded pack; `numbers` has the numbers of step 1 for valid rows, 0 for other rows.
  virtual void select(const PackedBatch& /*batch*/, std::span<const double> /*numbers*/,
                      std::span<std::uint8_t> /*selected*/) const {}

  /// Step 3: adds the terms of `tokens` to `totals` and d loss / d numbers to `gradients`.
  virtual void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                           SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                           const TokenGradients& gradients) const = 0;

  /// Returns steps 1 and 3 as kernels of `backend` for this batch, which may be gone when the
  /// kernels run. Null unless overridden: then the host's functions above work on the device's
  /// tables.
  virtual std::unique_ptr<ObjectiveKernels> kernels(Backend /*backend*/,
                                                    const PackedBatch& /*batch*/) const {
    return nullptr;
  }

  /// Returns loss and metrics from the sums, coefficients and totals of the whole pack.
  virtual ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                                 SequenceTable<const double> coefficients,
                                 ObjectiveTotals<const double> totals) const = 0;

  /// Adds metrics of the global batch that are functions of other metrics. They are computed after
  /// all parts are joined, because such a metric of parts cannot be joined.
  virtual void add_derived(Metrics& /*metrics*/) const {}

  /// Returns the truth from the forward formula in float64, independent of the code above. `rows`
  /// [T_pad] is by row of the padded pack, for the token that the row predicts; invalid rows are
  /// not read.
  virtual ObjectiveTruth truth(const PackedBatch& batch,
                               std::span<const TokenTruth> rows) const = 0;

 protected:
  explicit Objective(const ObjectiveNeeds& needs = {}) : needs_(needs) {}

 private:
  const ObjectiveNeeds needs_;
};

/// Returns an objective with the metrics of another objective in addition to its own. Loss and
/// gradient are unchanged.
std::unique_ptr<Objective> with_metrics(std::unique_ptr<Objective> objective,
                                        std::unique_ptr<Objective> metrics);
/// Returns an objective with the statistics of a step in addition (step_statistics.cpp).
std::unique_ptr<Objective> with_statistics(std::unique_ptr<Objective> objective);
/// Returns an objective with the metrics about predictions in addition (prediction_metrics.cpp).
std::unique_ptr<Objective> with_predictions(std::unique_ptr<Objective> objective);

struct ObjectiveEntry {
  std::string kind;
  std::string summary;
  /// Makes the objective. Throws bad_input for an unknown option, a bad value or a combination that
  /// is not allowed.
  std::function<std::unique_ptr<Objective>(const ObjectiveOptions&)> make;
  /// Returns every option with its given or default value. Throws the errors of `make`.
  std::function<std::vector<OptionDescription>(const ObjectiveOptions&)> describe = {};
  /// Returns every option with its default, including options that only exist together with others.
  std::function<std::vector<OptionDescription>()> document = {};
};

}  // namespace lossgrid
