// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/global_batch.h"

#include <limits>
#include <vector>

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Counts that every batch may have; behind them stand the tokens of groups.
constexpr std::size_t kCounts = 5;

/// Returns how many of the counts the ranks add up: those that the objective needs.
std::size_t count_of(const Problem& whole) {
  if (whole.group_count > 0) return kCounts + static_cast<std::size_t>(whole.group_count);
  if (whole.denominators.all_sequences > 0) return kCounts;
  return whole.rewards.empty() ? 2 : 3;
}

/// Adds valid tokens, valid sequences, valid tokens of sequences with a reward above 0, sequences
/// with a valid token, all sequences but the copies of a dummy, and valid tokens by group.
void add_counts(const Problem& problem, std::vector<std::int64_t>& counts) {
  const std::vector<std::uint8_t> valid = problem.row_valid();
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    std::int64_t tokens = 0;
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      tokens += valid[t];
    }
    counts[0] += tokens;
    counts[1] += problem.sample_mask[i];
    if (!problem.rewards.empty() && problem.rewards[i] > 0) counts[2] += tokens;
    counts[3] += tokens > 0 ? 1 : 0;
    counts[4] += problem.microbatch.dummy ? 0 : 1;
    if (problem.group_count == 0) continue;
    counts[kCounts + static_cast<std::size_t>(problem.groups[i])] += tokens;
  }
}

/// Two maxima for a number that must be the same on all ranks: itself and its negative.
struct Extrema {
  double high = -kInfinity;
  double negated_low = -kInfinity;
};

Extrema extrema_of(const Metric& metric) {
  if (metric.count == 0) return {};
  switch (metric.reduction) {
    case Reduction::max:
      return {metric.amount, -kInfinity};
    case Reduction::min:
      return {-kInfinity, -metric.amount};
    case Reduction::global:
      return {metric.amount, -metric.amount};
    default:
      return {};
  }
}

bool adds_up(const Metric& metric) {
  return metric.reduction == Reduction::count || metric.reduction == Reduction::sum ||
         metric.reduction == Reduction::mean;
}

double joined_amount(const Metric& metric, double sum, const Extrema& extrema) {
  if (adds_up(metric)) return sum;
  if (metric.count == 0) return 0;
  if (metric.reduction == Reduction::max) return extrema.high;
  if (metric.reduction == Reduction::min) return -extrema.negated_low;
  return extrema.high == -extrema.negated_low ? extrema.high
                                              : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void GlobalCounts::give_to(const Problem& part, PackedBatch& batch) const {
  batch.denominators = denominators;
  batch.input_sum = input_sum;
  if (tokens_of_groups.empty()) return;
  for (std::int64_t i = 0; i < part.sequences(); ++i) {
    batch.group_tokens[i] = tokens_of_groups[static_cast<std::size_t>(part.groups[i])];
  }
}

GlobalCounts count_global_batch(std::span<const TrialPart> parts, const Problem& whole,
                                Communicator& dp) {
  std::vector<std::int64_t> counts(kCounts + static_cast<std::size_t>(whole.group_count), 0);
  for (const TrialPart& part : parts) add_counts(*part.problem, counts);
  if (dp.size() > 1) {
    dp.all_reduce(std::span<std::int64_t>(counts).first(count_of(whole)), ReduceOp::sum);
  }
  GlobalCounts global;
  Denominators& denominators = global.denominators;
  denominators = {counts[0], counts[1], counts[2]};
  global.tokens_of_groups.assign(counts.begin() + kCounts, counts.end());
  for (const std::int64_t tokens : global.tokens_of_groups) {
    denominators.all_groups += 1;
    denominators.trained_groups += tokens > 0 ? 1 : 0;
  }
  const CaseSpec& spec = whole.spec;
  if (spec.global_valid_toks != 0) denominators.valid_tokens = spec.global_valid_toks;
  if (spec.global_valid_seqs != 0) denominators.valid_sequences = spec.global_valid_seqs;
  if (whole.denominators.all_sequences == 0) return global;
  const bool is_stated = spec.global_valid_seqs != 0;
  denominators.trained_sequences = is_stated ? spec.global_valid_seqs : counts[3];
  denominators.all_sequences = is_stated ? spec.global_valid_seqs : counts[4];
  return global;
}

double sum_inputs(std::span<const TrialPart> parts, const Objective& objective, Communicator& dp) {
  if (!objective.needs().input_sum) return 0;
  double sum = 0;
  for (const TrialPart& part : parts) sum += objective.input_sum(pack(*part.problem, Grid{}));
  if (dp.size() > 1) dp.all_reduce(std::span<double>(&sum, 1), ReduceOp::sum);
  return sum;
}

void reduce_result(ObjectiveResult& result, Communicator& dp) {
  if (dp.size() == 1) return;
  std::vector<double> sums{result.loss};
  std::vector<double> maxima;
  for (const auto& [name, metric] : result.metrics) {
    sums.push_back(adds_up(metric) ? metric.amount : 0.0);
    sums.push_back(metric.count);
    const Extrema extrema = extrema_of(metric);
    maxima.push_back(extrema.high);
    maxima.push_back(extrema.negated_low);
  }
  dp.all_reduce(std::span<double>(sums), ReduceOp::sum);
  if (!maxima.empty()) dp.all_reduce(std::span<double>(maxima), ReduceOp::max);
  result.loss = sums[0];
  std::size_t k = 0;
  for (auto& [name, metric] : result.metrics) {
    metric.count = sums[2 * k + 2];
    metric.amount = joined_amount(metric, sums[2 * k + 1], {maxima[2 * k], maxima[2 * k + 1]});
    ++k;
  }
}

CollectiveCounts batch_cost(const Problem& whole, const ObjectiveNeeds& needs,
                            const ObjectiveResult& result) {
  constexpr std::int64_t kNumberBytes = 8;
  const auto metrics = static_cast<std::int64_t>(result.metrics.size());
  CollectiveCounts cost;
  cost.add(Collective::all_reduce, 1, kNumberBytes * static_cast<std::int64_t>(count_of(whole)));
  if (needs.input_sum) cost.add(Collective::all_reduce, 1, kNumberBytes);
  cost.add(Collective::all_reduce, 1, kNumberBytes * (1 + 2 * metrics));
  if (metrics > 0) cost.add(Collective::all_reduce, 1, kNumberBytes * 2 * metrics);
  return cost;
}

}  // namespace lossgrid
