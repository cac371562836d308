// SPDX-License-Identifier: Apache-2.0
// The statistics of a training step, after those of AReaL's SFT engine (`lm_engine.py`,
// `stats_tracker.py`): counts of sequences and tokens, and average and extrema of per-token loss,
// entropy and vocabulary extrema and of per-sequence perplexity. Unlike upstream, vocabulary
// extrema are taken over the whole vocabulary and not a shard, and over valid tokens only, and the
// extrema of an empty set have no value.
#include <cmath>
#include <limits>

#include "harness/loss/objective.h"
#include "harness/loss/step_statistics_terms.h"
#include "harness/loss/terms_objective.h"

namespace lossgrid {
namespace {

constexpr int kCount = StepStatisticsTerms::kValues;
constexpr const char* kTokenValues[kCount] = {"loss", "entropy", "vocab_min_logits",
                                              "vocab_max_logits"};

/// Adds NAME_avg, NAME_min and NAME_max of `count` elements; without elements `least` and `largest`
/// are not read.
void add_spread(const std::string& name, double sum, double least, double largest, double count,
                Metrics& metrics) {
  metrics[name + "_avg"] = {Reduction::mean, sum, count};
  metrics[name + "_min"] = {Reduction::min, count > 0 ? least : 0, count};
  metrics[name + "_max"] = {Reduction::max, count > 0 ? largest : 0, count};
}

void add_spread(const std::string& name, std::span<const Enclosure> values,
                std::map<std::string, MetricTruth>& metrics) {
  const auto count = static_cast<double>(values.size());
  Enclosure least;
  Enclosure largest;
  if (!values.empty()) least = largest = values[0];
  for (const Enclosure& value : values) {
    least = min(least, value);
    largest = max(largest, value);
  }
  metrics[name + "_avg"] = {Reduction::mean, sum(values), count};
  metrics[name + "_min"] = {Reduction::min, least, count};
  metrics[name + "_max"] = {Reduction::max, largest, count};
}

/// Perplexity of sequence i = exp(-(sum of its log-probabilities) / n_i) over the n_i > 0 valid
/// tokens of the sequence; its average is over sequences.
class StepStatistics final : public TermsObjective<StepStatisticsTerms> {
 public:
  StepStatistics() : TermsObjective(ObjectiveNeeds{.row_statistics = true}) {}

  std::string_view kind() const override { return "step_statistics"; }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sequence_sums = StepStatisticsTerms::kSequenceSums;
    sizes.sums = StepStatisticsTerms::kSums;
    sizes.maxima = StepStatisticsTerms::kMaxima;
    return sizes;
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> totals) const override {
    Metrics metrics = counts(batch, totals.sums[0], totals.sums[1]);
    for (int k = 0; k < kCount; ++k) {
      add_spread(kTokenValues[k], totals.sums[2 + k], -totals.maxima[2 * k],
                 totals.maxima[2 * k + 1], totals.sums[1], metrics);
    }
    double sequences = 0;
    double ppl_sum = 0;
    double ppl_max = -std::numeric_limits<double>::infinity();
    double ppl_max_negative = ppl_max;
    for (std::int64_t i = 0; i < sums.sequences; ++i) {
      if (sums.at(i, 1) == 0) continue;
      const double ppl = std::exp(sums.at(i, 0) / sums.at(i, 1));
      sequences += 1;
      ppl_sum += ppl;
      raise_to(ppl_max_negative, -ppl);
      raise_to(ppl_max, ppl);
    }
    add_spread("ppl", ppl_sum, -ppl_max_negative, ppl_max, sequences, metrics);
    metrics["n_seqs"] = {Reduction::count, sequences, 1};
    return {0.0, std::move(metrics)};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    std::vector<Enclosure> values[kCount];
    std::vector<Enclosure> ppl;
    double tokens = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (!batch.microbatch.dummy) tokens += static_cast<double>(batch.input_lengths[i]);
      std::vector<Enclosure> losses;
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0 || batch.sample_mask[i] == 0) continue;
        const TokenTruth& row = rows[batch.cu_seqlens_padded[i] + t - 1];
        losses.push_back(-row.logprob);
        values[1].push_back(row.terms[RowTerm::entropy]);
        values[2].push_back(row.terms[RowTerm::vocab_min]);
        values[3].push_back(row.terms[RowTerm::vocab_max]);
      }
      if (losses.empty()) continue;
      values[0].insert(values[0].end(), losses.begin(), losses.end());
      ppl.push_back(exp(sum(losses) / static_cast<double>(losses.size())));
    }

    ObjectiveTruth truth;
    truth.grad_logprob.assign(rows.size(), 0.0);
    for (int k = 0; k < kCount; ++k) add_spread(kTokenValues[k], values[k], truth.metrics);
    add_spread("ppl", ppl, truth.metrics);
    const double valid = static_cast<double>(values[0].size());
    const Denominators& global = batch.denominators;
    const auto add = [&](const char* name, Reduction reduction, double number) {
      truth.metrics[name] = {reduction, number, 1};
    };
    add("n_seqs", Reduction::count, static_cast<double>(ppl.size()));
    add("n_tokens", Reduction::count, tokens);
    add("n_valid_tokens", Reduction::count, valid);
    add("prompt_tokens", Reduction::count, tokens - valid);
    add("global_valid_toks", Reduction::global, static_cast<double>(global.valid_tokens));
    add("global_valid_seqs", Reduction::global, static_cast<double>(global.valid_sequences));
    return truth;
  }

 private:
  StepStatisticsTerms terms(const PackedBatch& /*batch*/) const override { return {}; }

  static Metrics counts(const PackedBatch& batch, double tokens, double valid_tokens) {
    const auto global = [](std::int64_t number) {
      return Metric{Reduction::global, static_cast<double>(number), 1};
    };
    return {{"n_tokens", {Reduction::count, tokens, 1}},
            {"n_valid_tokens", {Reduction::count, valid_tokens, 1}},
            {"prompt_tokens", {Reduction::count, tokens - valid_tokens, 1}},
            {"global_valid_toks", global(batch.denominators.valid_tokens)},
            {"global_valid_seqs", global(batch.denominators.valid_sequences)}};
  }
};

}  // namespace

std::unique_ptr<Objective> with_statistics(std::unique_ptr<Objective> objective) {
  return with_metrics(std::move(objective), std::make_unique<StepStatistics>());
}

}  // namespace lossgrid
