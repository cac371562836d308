// SPDX-License-Identifier: Apache-2.0
// ValueObjective: the loss of a value head (NeMo-RL `MseValueLossFn`, verl's `compute_value_loss`,
// AReaL's `ppo_critic_loss_fn`), by the formula in value_terms.h. Its truth is in value_truth.h.
#pragma once

#include <memory>

#include "harness/loss/objective.h"
#include "harness/loss/terms_objective.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/value/value_draw.h"
#include "impls/objectives/value/value_terms.h"
#include "impls/objectives/value/value_truth.h"

namespace lossgrid {

/// Throws bad_input for a value of another type or out of range.
ValueOptions read_value_options(const OptionReader& reader);

/// Returns the options of `value` in a case.
ValueOptions value_options_from(const ObjectiveOptions& options);

/// Returns the needs of `value`.
ObjectiveNeeds value_needs(const ValueOptions& options);

/// Adds 1 - Var(R - v) / Var(R), computed from the means in `metrics`; it has no value if all
/// returns are equal.
void add_explained_variance(Metrics& metrics);

template <class Formulas = ValueFormulas>
class ValueObjective : public TermsObjective<ValueTerms<Formulas>> {
 public:
  using Terms = ValueTerms<Formulas>;

  explicit ValueObjective(const ValueOptions& options)
      : TermsObjective<Terms>(value_needs(options)), options_(options) {}

  std::string_view kind() const override { return "value"; }

  ObjectiveSizes sizes() const override {
    const bool by_sequence = options_.aggregation.differs_by_sequence();
    return {by_sequence ? Terms::kSequenceSums : 0, by_sequence ? 1 : 0, Terms::kSums,
            Terms::kMaxima};
  }

  std::shared_ptr<const InputDraw> input_draw() const override {
    return std::make_shared<ValueDraw>(options_.clip, options_.delta);
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    if (!options_.aggregation.differs_by_sequence()) return;
    for (std::int64_t i = 0; i < sums.sequences; ++i) {
      coefficients.at(i, 0) = share_of_token<double>(options_.aggregation, batch.denominators,
                                                     static_cast<std::int64_t>(sums.at(i, 0)));
    }
  }

  ObjectiveResult finish(const PackedBatch& /*batch*/, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> totals) const override {
    const double loss = totals.sums[Terms::kLoss];
    const double count = totals.sums[Terms::kTokens];
    const auto mean = [&](typename Terms::Sum sum) {
      return Metric{Reduction::mean, totals.sums[sum], count};
    };
    const auto extreme = [&](Reduction reduction, double value) {
      return Metric{reduction, count > 0 ? value : 0.0, count};
    };
    return {loss,
            {{"loss", {Reduction::sum, loss, 1}},
             {"num_unmasked_tokens", {Reduction::count, count, 1}},
             {"vf_clipfrac", mean(Terms::kClipped)},
             {"returns_mean", mean(Terms::kReturns)},
             {"returns_sq_mean", mean(Terms::kReturnsSquared)},
             {"residual_sq_mean", mean(Terms::kResidualsSquared)},
             {"values_mean", mean(Terms::kValues)},
             {"values_min", extreme(Reduction::min, -totals.maxima[Terms::kNegatedLeast])},
             {"values_max", extreme(Reduction::max, totals.maxima[Terms::kMost])}}};
  }

  void add_derived(Metrics& metrics) const override { add_explained_variance(metrics); }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return value_truth(options_, batch, rows);
  }

 private:
  Terms terms(const PackedBatch& batch) const override {
    const Aggregation& aggregation = options_.aggregation;
    if (aggregation.differs_by_sequence()) return {options_, 0};
    return {options_, share_of_token<double>(aggregation, batch.denominators, 0)};
  }

  const ValueOptions options_;
};

}  // namespace lossgrid
