// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg.h"

#include <cmath>
#include <string>

#include "harness/loss/registry.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

using T = ClippedPgTotals;

/// Returns the metric of a sum over the elements that `denominator` counts in the global batch.
Metric share_of(double amount, std::int64_t denominator) {
  if (denominator == 0) return {Reduction::sum, 0, 0};
  return {Reduction::sum, amount / static_cast<double>(denominator), 1};
}

/// Returns the metric of a sum of terms that are divided already.
Metric divided(double amount, bool has_elements) {
  return {Reduction::sum, has_elements ? amount : 0, has_elements ? 1.0 : 0.0};
}

void add_ratios(ObjectiveTotals<const double> totals, std::int64_t valid_tokens, Metrics& metrics) {
  const double count = totals.sums[T::kTokens];
  const auto add = [&](const std::string& name, T::Sum sum, T::Maximum largest, T::Maximum least) {
    metrics[name] = share_of(totals.sums[sum], valid_tokens);
    metrics[name + "_min"] = {Reduction::min, count > 0 ? -totals.maxima[least] : 0, count};
    metrics[name + "_max"] = {Reduction::max, count > 0 ? totals.maxima[largest] : 0, count};
  };
  add("probs_ratio", T::kRatio, T::kMaxRatio, T::kMaxMinusRatio);
  add("probs_ratio_clamped", T::kRatioClamped, T::kMaxRatioClamped, T::kMaxMinusRatioClamped);
}

/// Returns the number of sequences that count and whose weight is out of bounds.
double sequences_out_of_bounds(const ClippedPgOptions& options, const PackedBatch& batch,
                               SequenceTable<const double> coefficients) {
  const int column = ClippedPgColumns(options).out_of_bounds;
  double sequences = 0;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.sample_mask[i] != 0) sequences += coefficients.at(i, column);
  }
  return sequences;
}

void add_weights(const ClippedPgOptions& options, const PackedBatch& batch,
                 SequenceTable<const double> coefficients, ObjectiveTotals<const double> totals,
                 double mean_weight, Metrics& metrics) {
  const Denominators& denominators = batch.denominators;
  const bool by_sequence = options.weighs_sequences();
  metrics["sampling_importance_ratio"] =
      by_sequence ? divided(mean_weight, denominators.valid_sequences > 0)
                  : share_of(totals.sums[T::kWeight], denominators.valid_tokens);
  if (!options.truncates()) return;
  metrics["is_oob_ratio"] = by_sequence || options.masks_sequences()
                                ? share_of(sequences_out_of_bounds(options, batch, coefficients),
                                           denominators.valid_sequences)
                                : share_of(totals.sums[T::kOutOfBounds], denominators.valid_tokens);
}

}  // namespace

void ClippedPgTotals::add_to(ObjectiveTotals<double> totals) const {
  for (int k = 0; k < kSums; ++k) totals.sums[k] += sums[k];
  for (int k = 0; k < kMaxima; ++k) {
    if (maxima[k] > totals.maxima[k] || std::isnan(maxima[k])) totals.maxima[k] = maxima[k];
  }
}

ObjectiveResult clipped_pg_result(const ClippedPgOptions& options, const PackedBatch& batch,
                                  SequenceTable<const double> coefficients,
                                  ObjectiveTotals<const double> totals, double mean_weight) {
  const Denominators& denominators = batch.denominators;
  const std::int64_t in_loss = options.aggregation().elements(denominators);
  double samples = 0;
  for (const std::uint8_t mask : batch.sample_mask) samples += mask;

  ObjectiveResult result;
  result.loss = totals.sums[T::kActor] + options.kl_penalty() * totals.sums[T::kKl] +
                options.positive_example_nll_weight * totals.sums[T::kPositiveNll] -
                options.entropy_coefficient * totals.sums[T::kEntropy];
  Metrics& metrics = result.metrics;
  metrics["loss"] = {Reduction::sum, result.loss, 1};
  metrics["kl_penalty"] = divided(totals.sums[T::kKl], in_loss > 0);
  metrics["positive_nll_loss"] =
      divided(totals.sums[T::kPositiveNll],
              options.positive_example_nll_weight == 0 || denominators.positive_tokens > 0);
  metrics["num_valid_samples"] = {Reduction::count, samples, 1};
  const auto add = [&](const char* name, T::Sum sum) {
    metrics[name] = share_of(totals.sums[sum], denominators.valid_tokens);
  };
  add("token_mult_prob_error", T::kMultProbError);
  add("gen_kl_error", T::kGenKl);
  add("policy_kl_error", T::kPolicyKl);
  add("js_divergence_error", T::kJsDivergence);
  add("approx_entropy", T::kApproxEntropy);
  if (options.entropy_coefficient != 0) {
    metrics["entropy"] = divided(totals.sums[T::kEntropy], in_loss > 0);
  }
  if (options.rejects()) add("rollout_rs_masked_fraction", T::kRejected);
  if (options.selects()) add("selected_fraction", T::kSelected);
  add_ratios(totals, denominators.valid_tokens, metrics);
  add_weights(options, batch, coefficients, totals, mean_weight, metrics);
  return result;
}

namespace {

const Registered registered_clipped_pg{objective_entry(
    "clipped_pg",
    "clipped policy gradient (PPO, GRPO, GSPO, CISPO, REINFORCE) with KL penalty, entropy bonus",
    [](const OptionReader& reader) { return ClippedPgOptions::read(reader); },
    [](const ClippedPgOptions& o) { return std::make_unique<ClippedPgObjective<>>(o); })};

}  // namespace
}  // namespace lossgrid
