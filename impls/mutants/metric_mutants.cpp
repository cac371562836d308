// SPDX-License-Identifier: Apache-2.0
// Mutants with wrong metrics and statistics: a slice instead of the whole, counts over or under the
// true ones, extrema that are not reduced, sentinels that leak.
#include <algorithm>
#include <limits>
#include <vector>

#include "harness/device/kernel/items.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void reduce_all(Communicator& cp, ObjectiveTotals<double> totals) {
  if (!totals.sums.empty()) cp.all_reduce(totals.sums, ReduceOp::sum);
  if (!totals.maxima.empty()) cp.all_reduce(totals.maxima, ReduceOp::max);
}

/// Reduces the loss; everything else is of the rows of rank 0 alone.
void metrics_of_first_rank(Communicator& cp, ObjectiveTotals<double> totals) {
  if (cp.rank() != 0) {
    for (double& sum : totals.sums.subspan(std::min<std::size_t>(1, totals.sums.size()))) sum = 0;
    for (double& maximum : totals.maxima) maximum = -kInfinity;
  }
  reduce_all(cp, totals);
}

void maxima_not_reduced(Communicator& cp, ObjectiveTotals<double> totals) {
  const std::vector<double> own(totals.maxima.begin(), totals.maxima.end());
  reduce_all(cp, totals);
  std::copy(own.begin(), own.end(), totals.maxima.begin());
}

/// The last two sums of a sequence are those of the statistics: -logprob and tokens.
void statistics_sums_of_slice(Communicator& cp, SequenceTable<double> sums) {
  const auto size = static_cast<std::size_t>(sums.sequences * sums.columns);
  const std::vector<double> own(sums.data, sums.data + size);
  if (size > 0) cp.all_reduce(std::span<double>(sums.data, size), ReduceOp::sum);
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    for (int k = std::max(0, sums.columns - 2); k < sums.columns; ++k) {
      sums.at(i, k) = own[static_cast<std::size_t>(i * sums.columns + k)];
    }
  }
}

/// Returns the right result with `change` applied to every metric.
template <void (*change)(Metric&, int cp)>
ObjectiveResult changed_metrics(const Objective& objective, const PackedBatch& batch, int cp,
                                SequenceTable<const double> sums,
                                SequenceTable<const double> coefficients,
                                ObjectiveTotals<const double> totals) {
  ObjectiveResult result = objective.finish(batch, sums, coefficients, totals);
  for (auto& [name, metric] : result.metrics) change(metric, cp);
  return result;
}

void counted_once_a_rank(Metric& metric, int cp) {
  if (metric.reduction == Reduction::count) metric.amount /= cp;
}

void summed_over_replicas(Metric& metric, int cp) {
  const bool adds_up = metric.reduction == Reduction::count || metric.reduction == Reduction::sum;
  if (adds_up) metric.amount *= cp;
}

bool is_extremum(const Metric& metric) {
  return metric.reduction == Reduction::min || metric.reduction == Reduction::max;
}

void zero_for_empty(Metric& metric, int) {
  if (!is_extremum(metric) || metric.count != 0) return;
  metric.amount = 0;
  metric.count = 1;
}

void infinity_for_empty(Metric& metric, int) {
  if (!is_extremum(metric) || metric.count != 0) return;
  metric.amount = metric.reduction == Reduction::min ? kInfinity : -kInfinity;
  metric.count = 1;
}

/// With statistics of a step the first half of `values` is the negated minima; without them half of
/// the maxima stays local instead.
void range_not_reduced(Communicator& tp, std::span<float> values) {
  const std::span<float> minima = values.first(values.size() / 2);
  const std::vector<float> own(minima.begin(), minima.end());
  tp.all_reduce(values, ReduceOp::max);
  std::copy(own.begin(), own.end(), minima.begin());
}

/// Writes the right outputs, then applies `change` to the entropies, if the case asks for them.
template <typename Change>
void write_and_change_entropy(Device& device, std::int64_t rows, const WriteRow& write,
                              Change&& change) {
  for_each_item(device, rows, write);
  device.synchronise();
  if (write.out.terms[RowTerm::entropy] == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r) change(r, write.out.terms[RowTerm::entropy][r]);
}

void entropy_sign(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change_entropy(device, rows, write, [](std::int64_t, float& h) { h = -h; });
}

/// Applies a temperature to the logits once more, T = 1 / 0.9.
void entropy_at_other_temperature(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change_entropy(device, rows, write, [&](std::int64_t r, float& h) {
    using Columns = StatisticsColumns;
    if (write.targets[r] < 0) return;
    h += 0.1f * write.columns.at(Columns::kWeighted, r) / write.columns.at(Columns::kSum, r);
  });
}

/// Clamps "for stability", as losses over masked vocabularies do.
void logprob_clamped(Device& device, std::int64_t rows, const WriteRow& write) {
  for_each_item(device, rows, write);
  device.synchronise();
  for (std::int64_t r = 0; r < rows; ++r) {
    write.out.logprobs[r] = std::max(write.out.logprobs[r], -1e4f);
  }
}

const RegisteredMutant metric_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M21",
        .name = "metrics_of_first_rank",
        .what = "metrics from the slice of CP rank 0",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.reduce_totals = metrics_of_first_rank; },
        .seen_in = "AReaL #1223",
        .rejected_by = "metric.entropy_avg",
    }),
    RegisteredMutant({
        .catalogue_id = "M22",
        .name = "counts_over_cp",
        .what = "local counts are not added up over CP",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.finish = changed_metrics<counted_once_a_rank>; },
        .seen_in = "AReaL #1223, verl #5983",
        .rejected_by = "metric.n_seqs",
    }),
    RegisteredMutant({
        .catalogue_id = "M23",
        .name = "metrics_summed_over_cp",
        .what = "replicated metrics are added up over CP",
        .strategy = "fused",
        .change = [](Steps& s) { s.finish = changed_metrics<summed_over_replicas>; },
        .seen_in = "SkyRL before #1420",
        .rejected_by = "metric.loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M24",
        .name = "perplexity_of_slice",
        .what = "perplexity from a rank's slice of a sequence",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.reduce_sequence_sums = statistics_sums_of_slice; },
        .seen_in = "AReaL #1223",
        .rejected_by = "metric.ppl_avg",
    }),
    RegisteredMutant({
        .catalogue_id = "M25",
        .name = "extrema_not_reduced",
        .what = "extrema stay local to a CP rank",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.reduce_totals = maxima_not_reduced; },
        .rejected_by = "metric.entropy_max",
    }),
    RegisteredMutant({
        .catalogue_id = "M25",
        .name = "extrema_start_at_zero",
        .what = "extrema of nothing are 0",
        .strategy = "fused",
        .change = [](Steps& s) { s.finish = changed_metrics<zero_for_empty>; },
        .seen_in = "NeMo-RL, `values_min`",
        .rejected_by = "metric.entropy_min",
    }),
    RegisteredMutant({
        .catalogue_id = "M26",
        .name = "infinity_leaks",
        .what = "extrema of nothing are infinite",
        .strategy = "fused",
        .change = [](Steps& s) { s.finish = changed_metrics<infinity_for_empty>; },
        .rejected_by = "metric.entropy_max",
    }),
    RegisteredMutant({
        .catalogue_id = "M58",
        .name = "vocab_range_not_reduced",
        .what = "the smallest logit of the TP shard",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.reduce_max = range_not_reduced; },
        .seen_in = "AReaL 1.0.4, `vocab_min_logits`",
        .rejected_by = "vocab_min",
    }),
    RegisteredMutant({
        .catalogue_id = "M59",
        .name = "entropy_sign",
        .what = "sum p log p instead of its negative",
        .strategy = "fused",
        .change = [](Steps& s) { s.write_outputs = entropy_sign; },
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .name = "logprob_clamped",
        .what = "log-probabilities are clamped at -1e4",
        .strategy = "fused",
        .change = [](Steps& s) { s.write_outputs = logprob_clamped; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M59",
        .name = "entropy_temperature",
        .what = "entropy at another temperature",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.write_outputs = entropy_at_other_temperature; },
        .rejected_by = "entropy",
    }),
};

}  // namespace
}  // namespace lossgrid
