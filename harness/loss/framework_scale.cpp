// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/framework_scale.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {
namespace {

ObjectiveNeeds with_weights(ObjectiveNeeds needs, LossCounts counts) {
  if (counts == LossCounts::global) return needs;
  if (needs.token_weights) {
    throw_bad_input("framework.counts = {} takes no objective that weighs its tokens",
                    name(counts));
  }
  needs.token_weights = true;
  return needs;
}

/// Returns by row of the padded pack the weight of its terms, relative to a mean over the global
/// batch.
std::vector<double> weights_of_rows(const PackedBatch& batch, const Framework& framework,
                                    const ScaleSizes& sizes) {
  std::vector<double> weights(static_cast<std::size_t>(batch.padded_tokens()), 0.0);
  const auto cp = static_cast<int>(sizes.cp);
  const std::vector<TokenCounts> by_rank = token_counts(batch, cp);
  for (int rank = 0; rank < cp; ++rank) {
    const TokenCounts& tokens = by_rank[static_cast<std::size_t>(rank)];
    const double divisor = static_cast<double>(framework.divisor(tokens));
    for (const std::int64_t row : cp_rows(batch, cp, rank)) {
      weights[row] = static_cast<double>(tokens.global) / divisor;
    }
  }
  return weights;
}

bool adds_up(Reduction reduction) {
  return reduction == Reduction::sum || reduction == Reduction::count;
}

/// Scaled objective. It has no kernels, because a convention is checked, not timed.
class WithFramework final : public Objective {
 public:
  WithFramework(std::shared_ptr<const Objective> objective, const Framework& framework,
                const ScaleSizes& sizes)
      : Objective(with_weights(objective->needs(), framework.counts)),
        objective_(std::move(objective)),
        framework_(framework),
        sizes_(sizes),
        metric_factor_(framework.metrics.value(sizes)) {
    for (const ScaleFactor& factor : framework.gradient_factors()) {
      gradient_factors_.push_back(factor.value(sizes));
    }
  }

  std::string_view kind() const override { return objective_->kind(); }
  ObjectiveSizes sizes() const override { return objective_->sizes(); }
  bool linear() const override { return objective_->linear(); }
  bool loss_reads(RowTerm term) const override { return objective_->loss_reads(term); }
  std::shared_ptr<const InputDraw> input_draw() const override { return objective_->input_draw(); }
  void require(const PackedBatch& batch) const override { objective_->require(batch); }
  double input_sum(const PackedBatch& batch) const override { return objective_->input_sum(batch); }
  std::vector<float> token_weights(const PackedBatch& batch,
                                   const ShiftedBatch& rows) const override {
    if (!weighs_rows()) return objective_->token_weights(batch, rows);
    const ShiftedBatch pack = shift_targets(batch);
    const std::vector<double> of_pack = weights_of_rows(batch, framework_, sizes_);
    std::map<std::pair<std::int32_t, std::int32_t>, double> by_target;  // sequence and ordinal
    for (std::size_t row = 0; row < pack.rows(); ++row) {
      if (pack.valid[row] != 0) by_target[{pack.sequence[row], pack.ordinal[row]}] = of_pack[row];
    }
    std::vector<float> weights(rows.rows(), 0.0f);
    for (std::size_t k = 0; k < rows.rows(); ++k) {
      if (rows.valid[k] == 0) continue;
      weights[k] = static_cast<float>(by_target.at({rows.sequence[k], rows.ordinal[k]}));
    }
    return weights;
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
    // In separate buffers, so that the present content of `gradients` is not multiplied again.
    std::array<std::vector<float>, TokenGradients::kColumns> added;
    const auto columns = gradients.columns();
    for (std::size_t c = 0; c < columns.size(); ++c) added[c].assign(columns[c].size(), 0.0f);
    TokenGradients own{added[0]};
    for (int k = 0; k < kGradientTerms; ++k) own.terms.of[k] = added[1 + k];
    ObjectiveTokens unweighted = tokens;
    if (weighs_rows()) unweighted.weights = {};
    objective_->token_terms(unweighted, batch, coefficients, totals, own);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (std::size_t t = 0; t < columns[c].size(); ++t) {
        const double weight = weighs_rows() ? static_cast<double>(tokens.weights[t]) : 1;
        columns[c][t] += static_cast<float>(scaled(weight * added[c][t]));
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

  /// Adds no metrics if their sources have been multiplied by factors.
  void add_derived(Metrics& metrics) const override {
    if (metric_factor_ == 1) objective_->add_derived(metrics);
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth = objective_->truth(batch, rows);
    std::vector<double> weights(truth.grad_logprob.size(), 1.0);
    if (weighs_rows()) weights = weights_of_rows(batch, framework_, sizes_);
    const auto scale = [&](Enclosure& gradient, double weight) {
      if (weight != 1) gradient = gradient * weight;
      for (const double factor : gradient_factors_) gradient = gradient * factor;
    };
    const auto scale_rows = [&](std::vector<Enclosure>& gradients) {
      for (std::size_t row = 0; row < gradients.size(); ++row) scale(gradients[row], weights[row]);
    };
    scale_rows(truth.grad_logprob);
    for (std::vector<Enclosure>& gradients : truth.grad_terms) scale_rows(gradients);
    for (auto& [row, sides] : truth.grad_sides) {
      for (Enclosure& side : sides) scale(side, weights[static_cast<std::size_t>(row)]);
    }
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

  bool weighs_rows() const { return framework_.counts != LossCounts::global; }

  std::shared_ptr<const Objective> objective_;
  Framework framework_;
  ScaleSizes sizes_;
  std::vector<double> gradient_factors_;  // in the order of Framework::gradient_factors
  double metric_factor_;
};

}  // namespace

std::vector<TokenCounts> token_counts(const PackedBatch& batch, int cp) {
  const ShiftedBatch pack = shift_targets(batch);
  std::vector<TokenCounts> by_rank(static_cast<std::size_t>(cp));
  std::int64_t of_pack = 0;
  for (int rank = 0; rank < cp; ++rank) {
    TokenCounts& tokens = by_rank[static_cast<std::size_t>(rank)];
    for (const std::int64_t row : cp_rows(batch, cp, rank)) tokens.rank += pack.valid[row];
    of_pack += tokens.rank;
  }
  for (TokenCounts& tokens : by_rank) {
    tokens.pack = of_pack;
    tokens.global = batch.denominators.valid_tokens;
  }
  return by_rank;
}

std::shared_ptr<const Objective> with_framework(std::shared_ptr<const Objective> objective,
                                                const Framework& framework,
                                                const ScaleSizes& sizes) {
  return std::make_shared<WithFramework>(std::move(objective), framework, sizes);
}

}  // namespace lossgrid
