// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/framework_scale.h"

#include <array>
#include <utility>
#include <vector>

namespace lossgrid {
namespace {

bool adds_up(Reduction reduction) {
  return reduction == Reduction::sum || reduction == Reduction::count;
}

/// The scaled objective. It has no kernels: a convention is checked, not timed.
class WithFramework final : public Objective {
 public:
  WithFramework(std::shared_ptr<const Objective> objective, const Framework& framework,
                const ScaleSizes& sizes)
      : Objective(objective->needs()),
        objective_(std::move(objective)),
        metric_factor_(framework.metrics.value(sizes)) {
    for (const ScaleFactor& factor : framework.gradient_factors()) {
      gradient_factors_.push_back(factor.value(sizes));
    }
  }

  std::string_view kind() const override { return objective_->kind(); }
  ObjectiveSizes sizes() const override { return objective_->sizes(); }
  bool linear() const override { return objective_->linear(); }
  void require(const PackedBatch& batch) const override { objective_->require(batch); }
  double input_sum(const PackedBatch& batch) const override { return objective_->input_sum(batch); }
  std::vector<float> token_weights(const PackedBatch& batch,
                                   const ShiftedBatch& rows) const override {
    return objective_->token_weights(batch, rows);
  }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    objective_->sequence_sums(tokens, batch, sums);
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    objective_->coefficients(batch, sums, coefficients);
  }

  void selection_numbers(const ObjectiveTokens& tokens, std::span<double> numbers) const override {
    objective_->selection_numbers(tokens, numbers);
  }

  void select(const PackedBatch& batch, std::span<const double> numbers,
              std::span<std::uint8_t> selected) const override {
    objective_->select(batch, numbers, selected);
  }

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override {
    // Into buffers of their own: the present content of `gradients` is not multiplied again.
    std::array<std::vector<float>, TokenGradients::kColumns> added;
    const auto columns = gradients.columns();
    for (std::size_t c = 0; c < columns.size(); ++c) added[c].assign(columns[c].size(), 0.0f);
    TokenGradients own{added[0]};
    for (int k = 0; k < kGradientTerms; ++k) own.terms.of[k] = added[1 + k];
    objective_->token_terms(tokens, batch, coefficients, totals, own);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (std::size_t t = 0; t < columns[c].size(); ++t) {
        columns[c][t] += static_cast<float>(scaled(added[c][t]));
      }
    }
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    ObjectiveResult result = objective_->finish(batch, sums, coefficients, totals);
    for (auto& [name, metric] : result.metrics) {
      if (adds_up(metric.reduction)) metric.amount *= metric_factor_;
    }
    return result;
  }

  /// Adds none where factors are in the metrics that they follow from.
  void add_derived(Metrics& metrics) const override {
    if (metric_factor_ == 1) objective_->add_derived(metrics);
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth = objective_->truth(batch, rows);
    const auto scale = [&](std::vector<Enclosure>& gradients) {
      for (Enclosure& gradient : gradients) {
        for (const double factor : gradient_factors_) gradient = gradient * factor;
      }
    };
    scale(truth.grad_logprob);
    for (std::vector<Enclosure>& gradients : truth.grad_terms) scale(gradients);
    for (auto& [row, sides] : truth.grad_sides) scale(sides);
    if (metric_factor_ != 1) {
      std::erase_if(truth.metrics, [](const auto& metric) { return metric.second.is_derived; });
    }
    for (auto& [name, metric] : truth.metrics) {
      if (adds_up(metric.reduction)) metric.amount = metric.amount * metric_factor_;
    }
    return truth;
  }

 private:
  double scaled(double gradient) const {
    for (const double factor : gradient_factors_) gradient *= factor;
    return gradient;
  }

  std::shared_ptr<const Objective> objective_;
  std::vector<double> gradient_factors_;  // in the order of Framework::gradient_factors
  double metric_factor_;
};

}  // namespace

std::shared_ptr<const Objective> with_framework(std::shared_ptr<const Objective> objective,
                                                const Framework& framework,
                                                const ScaleSizes& sizes) {
  return std::make_shared<WithFramework>(std::move(objective), framework, sizes);
}

}  // namespace lossgrid
