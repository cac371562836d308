// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/bradley_terry.h"

#include <algorithm>
#include <optional>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "impls/objectives/pairs/pair_truth.h"

namespace lossgrid {
namespace {

/// Returns the row of the score of sequence i, the row of its only masked token.
std::optional<std::int64_t> row_of_score(const PackedBatch& batch, std::int64_t i) {
  for (std::int64_t t = 0; t < batch.length(i); ++t) {
    if (batch.token_mask[batch.cu_seqlens[i] + t] != 0) return batch.cu_seqlens_padded[i] + t;
  }
  return std::nullopt;
}

class BradleyTerryTruth {
 public:
  BradleyTerryTruth(const BradleyTerryOptions& options, const PackedBatch& batch,
                    std::span<const TokenTruth> rows)
      : options_(options), batch_(batch), rows_(rows) {}

  ObjectiveTruth take() {
    std::vector<Var> losses;
    for (std::int64_t i = 0; i + 1 < batch_.sequences(); i += 2) {
      const auto chosen = row_of_score(batch_, i);
      const auto rejected = row_of_score(batch_, i + 1);
      if (batch_.sample_mask[i] == 0) continue;
      const bool is_complete = chosen && rejected;
      truth_.branches["pairs_without_score"] += is_complete ? 0 : 1;
      if (is_complete) losses.push_back(loss_of(i, *chosen, *rejected));
    }
    // A part of the batch is divided by the pairs of the whole batch.
    const auto own = static_cast<double>(losses.size());
    const double pairs = batch_.input_sum > 0 ? batch_.input_sum : own;
    const Var loss = pairs > 0 ? sum(losses) / pairs : Var(0.0);
    truth_.loss = loss.enclosure();
    truth_.grad_logprob.assign(rows_.size(), 0.0);
    std::vector<Enclosure>& gradient = truth_.grad_terms[RowTerm::logsumexp];
    gradient.assign(rows_.size(), 0.0);
    const std::vector<Enclosure> by_score = tape_.gradient(loss, scores_);
    for (std::size_t k = 0; k < by_score.size(); ++k) gradient[row_of_[k]] = by_score[k];
    add_metrics(own);
    return std::move(truth_);
  }

 private:
  Var score(std::int64_t row) {
    row_of_.push_back(row);
    scores_.push_back(tape_.variable(rows_[row].terms[RowTerm::logsumexp]));
    return scores_.back();
  }

  Var loss_of(std::int64_t i, std::int64_t row_chosen, std::int64_t row_rejected) {
    const Var chosen = score(row_chosen);
    const Var rejected = score(row_rejected);
    Var gain = chosen - rejected;
    if (options_.has_margin) {
      gain = gain - Var(Enclosure(static_cast<double>(batch_.rewards[i])) -
                        Enclosure(static_cast<double>(batch_.rewards[i + 1])));
    }
    const double apart = chosen.value() - rejected.value();
    truth_.branches["pairs_chosen_preferred"] += apart > 0 ? 1 : 0;
    truth_.branches["pairs_rejected_preferred"] += apart < 0 ? 1 : 0;
    truth_.branches["pairs_tied"] += apart == 0 ? 1 : 0;
    truth_.branches["pairs_far_apart"] += std::abs(gain.value()) > 88 ? 1 : 0;
    const bool is_exact = chosen.enclosure().is_exact() && rejected.enclosure().is_exact();
    correct_.push_back(is_exact ? Enclosure(apart > 0 ? 1 : 0)
                                : is_positive(chosen.enclosure() - rejected.enclosure()));
    of_chosen_.push_back(chosen.enclosure());
    of_rejected_.push_back(rejected.enclosure());
    Var loss = -log_sigmoid(gain);
    if (options_.centring != 0) {
      loss += rounded_option(options_.centring) * true_square(chosen + rejected);
    }
    return loss;
  }

  void add_metrics(double count) {
    std::vector<Enclosure> all = of_chosen_;
    all.insert(all.end(), of_rejected_.begin(), of_rejected_.end());
    MetricTruth least{Reduction::min, all.empty() ? Enclosure() : all[0], 2 * count};
    MetricTruth most{Reduction::max, least.amount, 2 * count};
    for (const Enclosure& score : all) {
      least.amount = min(least.amount, score);
      most.amount = max(most.amount, score);
    }
    truth_.metrics = {{"loss", {Reduction::sum, truth_.loss, 1}},
                      {"num_valid_samples", {Reduction::count, count, 1}},
                      {"accuracy", {Reduction::mean, sum(correct_), count}},
                      {"rewards_chosen_mean", {Reduction::mean, sum(of_chosen_), count}},
                      {"rewards_rejected_mean", {Reduction::mean, sum(of_rejected_), count}},
                      {"mean_reward", {Reduction::mean, sum(all), 2 * count}},
                      {"min_reward", least},
                      {"max_reward", most}};
  }

  const BradleyTerryOptions& options_;
  const PackedBatch& batch_;
  const std::span<const TokenTruth> rows_;
  Tape tape_;
  std::vector<Var> scores_;
  std::vector<std::int64_t> row_of_;
  std::vector<Enclosure> correct_;
  std::vector<Enclosure> of_chosen_;
  std::vector<Enclosure> of_rejected_;
  ObjectiveTruth truth_;
};

}  // namespace

BradleyTerryOptions BradleyTerryOptions::read(const OptionReader& reader) {
  BradleyTerryOptions options;
  reader.read(
      "margin", options.has_margin,
      {"true: m is the difference of the `rewards` of both, else 0", "TRL, OpenRLHF `margin`"});
  options.centring = reader
                         .optional_number("center_rewards_coefficient", std::nullopt,
                                          {"k: adds k (c + r)²", "TRL", kNotNegative, {"0.1"}})
                         .value_or(0);
  return options;
}

ObjectiveNeeds bradley_terry_needs(const BradleyTerryOptions& options) {
  ObjectiveNeeds needs;
  needs.head = Head::score;
  needs.terms.add(RowTerm::logsumexp);
  needs.rewards = options.has_margin;
  needs.sequences_per_unit = 2;
  needs.input_sum = true;
  return needs;
}

double count_scored_pairs(const PackedBatch& batch) {
  double pairs = 0;
  for (std::int64_t i = 0; i + 1 < batch.sequences(); i += 2) {
    const bool is_complete = row_of_score(batch, i) && row_of_score(batch, i + 1);
    pairs += batch.sample_mask[i] != 0 && is_complete ? 1 : 0;
  }
  return pairs;
}

ObjectiveTruth bradley_terry_truth(const BradleyTerryOptions& options, const PackedBatch& batch,
                                   std::span<const TokenTruth> rows) {
  return BradleyTerryTruth(options, batch, rows).take();
}

namespace {

const Registered registered_bradley_terry{objective_entry(
    "bradley_terry", "preference pairs of scores of a reward model, with margins and centring",
    [](const OptionReader& reader) { return BradleyTerryOptions::read(reader); },
    [](const BradleyTerryOptions& options) {
      return std::make_unique<BradleyTerryObjective<>>(options);
    })};

}  // namespace
}  // namespace lossgrid
