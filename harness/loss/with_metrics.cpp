// SPDX-License-Identifier: Apache-2.0
// An objective with additional metrics from another objective, which has no loss.
#include "harness/loss/objective.h"

namespace lossgrid {
namespace {

template <typename T>
ObjectiveTotals<T> first_part(const ObjectiveTotals<T>& totals, const ObjectiveSizes& sizes) {
  return {totals.sums.first(sizes.sums), totals.maxima.first(sizes.maxima)};
}
template <typename T>
ObjectiveTotals<T> last_part(const ObjectiveTotals<T>& totals, const ObjectiveSizes& sizes) {
  return {totals.sums.last(sizes.sums), totals.maxima.last(sizes.maxima)};
}

class WithMetricsKernels final : public ObjectiveKernels {
 public:
  WithMetricsKernels(std::unique_ptr<ObjectiveKernels> objective, const ObjectiveSizes& own,
                     std::unique_ptr<ObjectiveKernels> metrics, const ObjectiveSizes& added)
      : objective_(std::move(objective)), own_(own), metrics_(std::move(metrics)), added_(added) {}

  void sequence_sums(Device& device, const ObjectiveTokens& tokens,
                     SequenceTable<double> sums) const override {
    objective_->sequence_sums(device, tokens, sums.part(0, own_.sequence_sums));
    metrics_->sequence_sums(device, tokens, sums.part(own_.sequence_sums, added_.sequence_sums));
  }

  void token_terms(Device& device, const ObjectiveTokens& tokens,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients, double* partial_totals) const override {
    objective_->token_terms(device, tokens, coefficients, first_part(totals, own_), gradients,
                            partial_totals);
    metrics_->token_terms(device, tokens, {}, last_part(totals, added_), gradients, partial_totals);
  }

 private:
  std::unique_ptr<ObjectiveKernels> objective_;
  ObjectiveSizes own_;
  std::unique_ptr<ObjectiveKernels> metrics_;
  ObjectiveSizes added_;
};

ObjectiveNeeds needs_of_both(const Objective& objective, const Objective& metrics) {
  ObjectiveNeeds needs = objective.needs();
  needs.row_statistics |= metrics.needs().row_statistics;
  needs.predictions |= metrics.needs().predictions;
  return needs;
}

/// Columns and totals of the objective, followed by those of the metrics.
class WithMetrics final : public Objective {
 public:
  WithMetrics(std::unique_ptr<Objective> objective, std::unique_ptr<Objective> metrics)
      : Objective(needs_of_both(*objective, *metrics)),
        objective_(std::move(objective)),
        metrics_(std::move(metrics)),
        own_(objective_->sizes()),
        added_(metrics_->sizes()) {}

  std::string_view kind() const override { return objective_->kind(); }

  bool loss_reads(RowTerm term) const override { return objective_->loss_reads(term); }

  bool linear() const override { return objective_->linear(); }

  ObjectiveSizes sizes() const override {
    return {own_.sequence_sums + added_.sequence_sums, own_.coefficients + added_.coefficients,
            own_.sums + added_.sums, own_.maxima + added_.maxima, own_.selection_numbers};
  }

  std::shared_ptr<const InputDraw> input_draw() const override { return objective_->input_draw(); }

  void require(const PackedBatch& batch) const override { objective_->require(batch); }
  double input_sum(const PackedBatch& batch) const override { return objective_->input_sum(batch); }

  std::vector<float> token_weights(const PackedBatch& batch,
                                   const ShiftedBatch& rows) const override {
    return objective_->token_weights(batch, rows);
  }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    objective_->sequence_sums(tokens, batch, sums.part(0, own_.sequence_sums));
    metrics_->sequence_sums(tokens, batch, sums.part(own_.sequence_sums, added_.sequence_sums));
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    objective_->coefficients(batch, sums.part(0, own_.sequence_sums), coefficients);
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
    objective_->token_terms(tokens, batch, coefficients, first_part(totals, own_), gradients);
    metrics_->token_terms(tokens, batch, {}, last_part(totals, added_), gradients);
  }

  std::unique_ptr<ObjectiveKernels> kernels(Backend backend,
                                            const PackedBatch& batch) const override {
    auto own = objective_->kernels(backend, batch);
    auto added = metrics_->kernels(backend, batch);
    if (own == nullptr || added == nullptr) return nullptr;
    return std::make_unique<WithMetricsKernels>(std::move(own), own_, std::move(added), added_);
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    ObjectiveResult result = objective_->finish(batch, sums.part(0, own_.sequence_sums),
                                                coefficients, first_part(totals, own_));
    ObjectiveResult added = metrics_->finish(
        batch, sums.part(own_.sequence_sums, added_.sequence_sums), {}, last_part(totals, added_));
    result.metrics.merge(added.metrics);
    return result;
  }

  void add_derived(Metrics& metrics) const override { objective_->add_derived(metrics); }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth = objective_->truth(batch, rows);
    truth.metrics.merge(metrics_->truth(batch, rows).metrics);
    return truth;
  }

 private:
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Objective> metrics_;
  ObjectiveSizes own_;
  ObjectiveSizes added_;
};

}  // namespace

std::unique_ptr<Objective> with_metrics(std::unique_ptr<Objective> objective,
                                        std::unique_ptr<Objective> metrics) {
  return std::make_unique<WithMetrics>(std::move(objective), std::move(metrics));
}

}  // namespace lossgrid
