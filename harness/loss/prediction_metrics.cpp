// SPDX-License-Identifier: Apache-2.0
// Metrics about the predictions of valid tokens: the average of the sum of squared probabilities
// (used by verl's optimal token baseline), the share of tokens whose label is the most probable id,
// and the average of the mean logit. No metric has a gradient. All are for the whole vocabulary,
// independent of its shards.
#include "harness/loss/objective.h"
#include "harness/loss/prediction_metrics_terms.h"
#include "harness/loss/terms_objective.h"

namespace lossgrid {
namespace {

constexpr RowTerm kPredictionTerms[] = {RowTerm::sum_p2, RowTerm::top1, RowTerm::mean_logit};

class PredictionMetrics final : public TermsObjective<PredictionMetricsTerms> {
 public:
  PredictionMetrics() : TermsObjective(ObjectiveNeeds{.predictions = true}) {}

  std::string_view kind() const override { return "prediction_metrics"; }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sums = PredictionMetricsTerms::kSums;
    return sizes;
  }

  ObjectiveResult finish(const PackedBatch& /*batch*/, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> totals) const override {
    Metrics metrics;
    for (std::size_t k = 0; k < PredictionMetricsTerms::kValues; ++k) {
      metrics[kPredictionMetrics[k]] = {Reduction::mean, totals.sums[1 + k], totals.sums[0]};
    }
    return {0.0, std::move(metrics)};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    std::vector<Enclosure> values[PredictionMetricsTerms::kValues];
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0 || batch.sample_mask[i] == 0) continue;
        const TokenTruth& row = rows[batch.cu_seqlens_padded[i] + t - 1];
        for (std::size_t k = 0; k < PredictionMetricsTerms::kValues; ++k) {
          values[k].push_back(row.terms[kPredictionTerms[k]]);
        }
      }
    }
    ObjectiveTruth truth;
    truth.grad_logprob.assign(rows.size(), 0.0);
    for (std::size_t k = 0; k < PredictionMetricsTerms::kValues; ++k) {
      truth.metrics[kPredictionMetrics[k]] = {Reduction::mean, sum(values[k]),
                                              static_cast<double>(values[k].size())};
    }
    return truth;
  }

 private:
  PredictionMetricsTerms terms(const PackedBatch& /*batch*/) const override { return {}; }
};

}  // namespace

std::unique_ptr<Objective> with_predictions(std::unique_ptr<Objective> objective) {
  return with_metrics(std::move(objective), std::make_unique<PredictionMetrics>());
}

}  // namespace lossgrid
