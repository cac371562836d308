// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/framework_scale.h"

#include <utility>

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
      : objective_(std::move(objective)), metric_factor_(framework.metrics.value(sizes)) {
    for (const ScaleFactor& factor : framework.gradient_factors()) {
      gradient_factors_.push_back(factor.value(sizes));
    }
  }

  std::string_view kind() const override { return objective_->kind(); }
  ObjectiveNeeds needs() const override { return objective_->needs(); }
  ObjectiveSizes sizes() const override { return objective_->sizes(); }
  bool linear() const override { return objective_->linear(); }
  void require(const PackedBatch& batch) const override { objective_->require(batch); }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    objective_->sequence_sums(tokens, batch, sums);
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    objective_->coefficients(batch, sums, coefficients);
  }

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   std::span<float> grad_logprobs) const override {
    // Into a buffer of its own: the present content of grad_logprobs is not multiplied again.
    std::vector<float> added(grad_logprobs.size(), 0.0f);
    objective_->token_terms(tokens, batch, coefficients, totals, added);
    for (std::size_t t = 0; t < added.size(); ++t) {
      double gradient = added[t];
      for (const double factor : gradient_factors_) gradient *= factor;
      grad_logprobs[t] += static_cast<float>(gradient);
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

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth = objective_->truth(batch, rows);
    const auto scale = [&](std::vector<Enclosure>& gradients) {
      for (Enclosure& gradient : gradients) {
        for (const double factor : gradient_factors_) gradient = gradient * factor;
      }
    };
    scale(truth.grad_logprob);
    for (auto& [row, sides] : truth.grad_sides) scale(sides);
    for (auto& [name, metric] : truth.metrics) {
      if (adds_up(metric.reduction)) metric.amount = metric.amount * metric_factor_;
    }
    return truth;
  }

 private:
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
