// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/pair_truth.h"

#include <string>
#include <utility>

namespace lossgrid {

PairTruth::PairTruth(const PairWeights& weights, const PackedBatch& batch,
                     std::span<const TokenTruth> rows, int side)
    : weights_(weights), batch_(batch), rows_(rows), side_(side) {
  if (side >= 0) tape_.take_side(side == 0 ? Side::first : Side::second);
}

ObjectiveTruth PairTruth::take() {
  read_pairs();
  const Var preference = of_pairs(losses());
  const Var sft = weights_.sft > 0 ? of_pairs(sft_terms()) : Var(0.0);
  const Var loss =
      rounded_option(weights_.sft) * sft + rounded_option(weights_.preference) * preference;
  truth_.loss = loss.enclosure();
  truth_.grad_logprob.assign(rows_.size(), 0.0);
  const std::vector<Enclosure> gradient = tape_.gradient(loss, logprobs_);
  for (std::size_t k = 0; k < gradient.size(); ++k) truth_.grad_logprob[row_of_[k]] = gradient[k];
  truth_.metrics = {
      {"loss", {Reduction::sum, truth_.loss, 1}},
      {"preference_loss", {Reduction::sum, preference.enclosure(), 1}},
      {"sft_loss", {Reduction::sum, sft.enclosure(), 1}},
      {"num_valid_samples", {Reduction::count, static_cast<double>(pairs_.size()), 1}}};
  add_metrics(truth_.metrics);
  return std::move(truth_);
}

void PairTruth::read_pairs() {
  for (std::int64_t i = 0; i + 1 < batch_.sequences(); i += 2) {
    if (batch_.sample_mask[i] == 0) continue;
    const std::int64_t whole = std::min(targets(i), targets(i + 1));
    const TrueSequence chosen = read(i, whole);
    const TrueSequence rejected = read(i + 1, whole);
    pairs_.push_back({chosen, rejected});
    if (weights_.tail == 1) continue;
    branch("sequence_with_tail") += targets(i) != targets(i + 1) ? 1 : 0;
  }
}

std::int64_t PairTruth::targets(std::int64_t i) const {
  std::int64_t count = 0;
  for (std::int64_t t = 1; t < batch_.length(i); ++t) {  // the first token is never a target
    count += batch_.token_mask[batch_.cu_seqlens[i] + t];
  }
  return count;
}

TrueSequence PairTruth::read(std::int64_t i, std::int64_t whole) {
  const std::vector<float>& reference =
      batch_.inputs[static_cast<int>(TokenInput::reference_policy_logprobs)];
  std::vector<Var> of_policy;
  std::vector<Enclosure> of_reference;
  std::vector<Var> log_ratios;
  std::vector<Enclosure> alignments;
  for (std::int64_t t = 1; t < batch_.length(i); ++t) {  // the first token is never a target
    const std::int64_t token = batch_.cu_seqlens[i] + t;
    if (batch_.token_mask[token] == 0) continue;
    row_of_.push_back(batch_.cu_seqlens_padded[i] + t - 1);
    logprobs_.push_back(tape_.variable(rows_[row_of_.back()].logprob));
    of_policy.push_back(logprobs_.back());
    if (weights_.weighs_pairs) {
      const TokenTruth& row = rows_[row_of_.back()];
      alignments.push_back(row.logprob - log(row.terms[RowTerm::sum_p2]));
    }
    if (!weights_.has_reference) continue;
    of_reference.push_back(static_cast<double>(reference[token]));
    const Var log_ratio = logprobs_.back() - Var(of_reference.back());
    const bool is_whole = std::ssize(of_policy) <= whole;
    log_ratios.push_back(is_whole ? log_ratio : rounded_option(weights_.tail) * log_ratio);
  }
  TrueSequence sequence;
  sequence.index = i;
  sequence.tokens = static_cast<double>(of_policy.size());
  sequence.logprob = sum(of_policy);
  sequence.reference = sum(of_reference);
  sequence.log_ratio = weights_.has_reference ? sum(log_ratios) : sequence.logprob;
  sequence.alignment = sum(alignments);
  sequence.reward = reward(sequence);
  return sequence;
}

std::vector<Var> PairTruth::losses() {
  std::vector<Var> losses;
  for (const TruePair& pair : pairs_) losses.push_back(loss(pair));
  return losses;
}

std::vector<Var> PairTruth::sft_terms() const {
  std::vector<Var> terms;
  for (const TruePair& pair : pairs_) {
    const TrueSequence& chosen = pair.chosen;
    terms.push_back(-chosen.logprob / (weights_.sft_by_token ? chosen.tokens_or_one() : 1.0));
  }
  return terms;
}

void PairTruth::add_metrics(std::map<std::string, MetricTruth>& metrics) {
  std::int64_t& prefers_chosen = branch("pairs_chosen_preferred");
  std::int64_t& prefers_rejected = branch("pairs_rejected_preferred");
  std::vector<Enclosure> correct;
  std::vector<Enclosure> chosen_rewards;
  std::vector<Enclosure> rejected_rewards;
  for (const auto& [chosen, rejected] : pairs_) {
    const Var difference = reward_difference({chosen, rejected});
    prefers_chosen += difference.value() > 0 ? 1 : 0;
    prefers_rejected += difference.value() < 0 ? 1 : 0;
    correct.push_back(is_positive(difference.enclosure()));
    chosen_rewards.push_back(chosen.reward.enclosure());
    rejected_rewards.push_back(rejected.reward.enclosure());
  }
  const double has_pairs = global_pairs() > 0 ? 1 : 0;
  metrics["accuracy"] = {Reduction::sum, of_pairs(correct), has_pairs};
  metrics["rewards_chosen_mean"] = {Reduction::sum, of_pairs(chosen_rewards), has_pairs};
  metrics["rewards_rejected_mean"] = {Reduction::sum, of_pairs(rejected_rewards), has_pairs};
}

Var PairTruth::positive_part(const Var& x) {
  if (x.enclosure().low > 0) return x;
  if (x.enclosure().high <= 0) return 0.0;
  const double share = x.value() > 0 ? 1 : 0;
  return Tape::record(max(x.enclosure(), 0.0), x, Tape::straddled(x, x, share, 0));
}

}  // namespace lossgrid
