// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/dpo.h"

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/loss/tape.h"
#include "harness/loss/terms_kernels.h"
#include "impls/objectives/dpo_terms.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

constexpr auto kLogRatio = DpoTerms::kLogRatio;
constexpr auto kLogprob = DpoTerms::kLogprob;
constexpr auto kTokens = DpoTerms::kTokens;

/// Returns 1 / (1 + exp(-x)), without overflow.
double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

/// Returns the pairs of the global batch.
double global_pairs(const PackedBatch& batch) {
  return static_cast<double>(batch.denominators.valid_sequences) / 2;
}

/// Returns the sample mask of the pair of sequence i, equal for both.
double pair_weight(const PackedBatch& batch, std::int64_t i) {
  const double pairs = global_pairs(batch);
  return pairs > 0 && batch.sample_mask[i] != 0 ? 1 / pairs : 0;
}

double tokens_or_one(bool average, SequenceTable<const double> sums, std::int64_t i) {
  return average ? std::max(1.0, sums.at(i, kTokens)) : 1;
}

double valid_pairs(const PackedBatch& batch) {
  double samples = 0;
  for (const std::uint8_t mask : batch.sample_mask) samples += mask;
  return samples / 2;
}

double non_negative(const OptionReader& reader, const std::string& option, double fallback) {
  const double value = reader.number(option, fallback);
  if (value < 0) throw_bad_input("dpo: {} = {} is negative", option, value);
  return value;
}

}  // namespace

DpoOptions read_dpo_options(const ObjectiveOptions& options) {
  const OptionReader reader(options, "dpo");
  const DpoOptions read = DpoOptions::read(reader);
  reader.require_all_known();
  return read;
}

DpoOptions DpoOptions::read(const OptionReader& reader) {
  DpoOptions read;
  read.reference_policy_kl_penalty =
      non_negative(reader, "reference_policy_kl_penalty", read.reference_policy_kl_penalty);
  read.preference_loss_weight =
      non_negative(reader, "preference_loss_weight", read.preference_loss_weight);
  read.sft_loss_weight = non_negative(reader, "sft_loss_weight", read.sft_loss_weight);
  read.preference_average_log_probs =
      reader.flag("preference_average_log_probs", read.preference_average_log_probs);
  read.sft_average_log_probs = reader.flag("sft_average_log_probs", read.sft_average_log_probs);
  return read;
}

ObjectiveNeeds DpoSteps::needs() const {
  ObjectiveNeeds needs;
  needs.inputs[static_cast<int>(TokenInput::reference_policy_logprobs)] = true;
  needs.sequences_per_unit = 2;
  needs.edges_by_unit = true;  // one offset for a pair: the rewards of both are all but equal
  return needs;
}

ObjectiveSizes DpoSteps::sizes() const {
  ObjectiveSizes sizes;
  sizes.sequence_sums = DpoTerms::kSequenceSums;
  sizes.coefficients = 1;  // d loss / d lp of every valid token of the sequence
  return sizes;
}

void DpoSteps::require(const PackedBatch& batch) const {
  if (batch.sequences() % 2 != 0) {
    throw_bad_input("dpo: sequence {} has no partner: sequences come in pairs of chosen, rejected",
                    batch.sequences() - 1);
  }
  for (std::int64_t i = 0; i < batch.sequences(); i += 2) {
    if (batch.sample_mask[i] != batch.sample_mask[i + 1]) {
      throw_bad_input(
          "dpo: sequences {} and {} have sample masks {} and {}: a pair is trained on "
          "as a whole",
          i, i + 1, batch.sample_mask[i], batch.sample_mask[i + 1]);
    }
  }
}

double DpoSteps::reward(SequenceTable<const double> sums, std::int64_t i) const {
  return sums.at(i, kLogRatio) / tokens_or_one(options_.preference_average_log_probs, sums, i);
}

void DpoSteps::sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& /*batch*/,
                             SequenceTable<double> sums) const {
  add_sequence_sums(DpoTerms(), tokens, sums);
}

void DpoSteps::coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                            SequenceTable<double> coefficients) const {
  const double beta = options_.reference_policy_kl_penalty;
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    const double towards = is_chosen(i) ? 1 : -1;
    const double difference = towards * (reward(sums, i) - reward(sums, partner(batch, i)));
    double gradient = -towards * options_.preference_loss_weight * beta *
                      sigmoid(-beta * difference) /
                      tokens_or_one(options_.preference_average_log_probs, sums, i);
    if (is_chosen(i)) {
      gradient -= options_.sft_loss_weight / tokens_or_one(options_.sft_average_log_probs, sums, i);
    }
    coefficients.at(i, 0) = pair_weight(batch, i) * gradient;
  }
}

void DpoSteps::token_terms(const ObjectiveTokens& tokens, const PackedBatch& /*batch*/,
                           SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                           const TokenGradients& gradients) const {
  add_token_terms(DpoTerms(), tokens, coefficients, totals.sums.data(), totals.maxima.data(),
                  gradients);
}

std::unique_ptr<ObjectiveKernels> DpoSteps::kernels(Backend backend,
                                                    const PackedBatch& /*batch*/) const {
  return terms_kernels(backend, DpoTerms());
}

ObjectiveResult DpoSteps::finish(const PackedBatch& batch, SequenceTable<const double> sums,
                                 SequenceTable<const double> /*coefficients*/,
                                 ObjectiveTotals<const double> /*totals*/) const {
  double preference = 0;
  double sft = 0;
  double accuracy = 0;
  double chosen = 0;
  double rejected = 0;
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    const double weight = pair_weight(batch, i);
    if (!is_chosen(i) || weight == 0) continue;
    const double reward_chosen = reward(sums, i);
    const double reward_rejected = reward(sums, partner(batch, i));
    const double difference = reward_chosen - reward_rejected;
    preference += weight * negative_log_sigmoid(options_.reference_policy_kl_penalty * difference);
    sft -= weight * sums.at(i, kLogprob) / tokens_or_one(options_.sft_average_log_probs, sums, i);
    accuracy += difference > 0 ? weight : 0;
    chosen += weight * reward_chosen;
    rejected += weight * reward_rejected;
  }
  if (options_.sft_loss_weight == 0) sft = 0;
  const double loss = options_.sft_loss_weight * sft + options_.preference_loss_weight * preference;
  const double has_pairs = global_pairs(batch) > 0 ? 1 : 0;
  return {loss,
          {{"loss", {Reduction::sum, loss, 1}},
           {"preference_loss", {Reduction::sum, preference, 1}},
           {"sft_loss", {Reduction::sum, sft, 1}},
           {"accuracy", {Reduction::sum, accuracy, has_pairs}},
           {"rewards_chosen_mean", {Reduction::sum, chosen, has_pairs}},
           {"rewards_rejected_mean", {Reduction::sum, rejected, has_pairs}},
           {"num_valid_samples", {Reduction::count, valid_pairs(batch), 1}}}};
}

ObjectiveTruth DpoSteps::truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const {
  const std::vector<float>& reference =
      batch.inputs[static_cast<int>(TokenInput::reference_policy_logprobs)];
  Tape tape;
  std::vector<Var> logprobs;
  std::vector<std::int64_t> row_of;
  struct Sequence {
    Var reward;
    Var sft;
  };
  const auto read = [&](std::int64_t i) {
    std::vector<Var> log_ratios;
    std::vector<Var> negatives;
    for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
      const std::int64_t token = batch.cu_seqlens[i] + t;
      if (batch.token_mask[token] == 0) continue;
      row_of.push_back(batch.cu_seqlens_padded[i] + t - 1);
      logprobs.push_back(tape.variable(rows[row_of.back()].logprob));
      log_ratios.push_back(logprobs.back() - static_cast<double>(reference[token]));
      negatives.push_back(-logprobs.back());
    }
    const double n = std::max(1.0, static_cast<double>(negatives.size()));
    return Sequence{sum(log_ratios) / (options_.preference_average_log_probs ? n : 1.0),
                    sum(negatives) / (options_.sft_average_log_probs ? n : 1.0)};
  };

  ObjectiveTruth truth;
  std::vector<Var> preferences;
  std::vector<Var> sfts;
  std::vector<Enclosure> correct;
  std::vector<Enclosure> chosen_rewards;
  std::vector<Enclosure> rejected_rewards;
  std::int64_t& prefers_chosen = truth.branches["pairs_chosen_preferred"];
  std::int64_t& prefers_rejected = truth.branches["pairs_rejected_preferred"];
  for (std::int64_t i = 0; i + 1 < batch.sequences(); i += 2) {
    if (batch.sample_mask[i] == 0) continue;
    const Sequence chosen = read(i);
    const Sequence rejected = read(i + 1);
    const Var difference = chosen.reward - rejected.reward;
    preferences.push_back(-log_sigmoid(options_.reference_policy_kl_penalty * difference));
    sfts.push_back(chosen.sft);
    correct.push_back(is_positive(difference.enclosure()));
    chosen_rewards.push_back(chosen.reward.enclosure());
    rejected_rewards.push_back(rejected.reward.enclosure());
    prefers_chosen += difference.value() > 0;
    prefers_rejected += difference.value() < 0;
  }

  const double pairs = static_cast<double>(batch.denominators.valid_sequences) / 2;
  const auto of_pairs = [&](const auto& terms) {
    using Number = typename std::decay_t<decltype(terms)>::value_type;
    return pairs > 0 ? sum(terms) / pairs : Number(0.0);
  };
  const Var preference = of_pairs(preferences);
  const Var sft = options_.sft_loss_weight > 0 ? of_pairs(sfts) : Var(0.0);
  const Var loss = options_.sft_loss_weight * sft + options_.preference_loss_weight * preference;

  truth.loss = loss.enclosure();
  truth.grad_logprob.assign(rows.size(), 0.0);
  const std::vector<Enclosure> gradient = tape.gradient(loss, logprobs);
  for (std::size_t k = 0; k < gradient.size(); ++k) truth.grad_logprob[row_of[k]] = gradient[k];
  const double has_pairs = pairs > 0 ? 1 : 0;
  truth.metrics = {
      {"loss", {Reduction::sum, truth.loss, 1}},
      {"preference_loss", {Reduction::sum, preference.enclosure(), 1}},
      {"sft_loss", {Reduction::sum, sft.enclosure(), 1}},
      {"accuracy", {Reduction::sum, of_pairs(correct), has_pairs}},
      {"rewards_chosen_mean", {Reduction::sum, of_pairs(chosen_rewards), has_pairs}},
      {"rewards_rejected_mean", {Reduction::sum, of_pairs(rejected_rewards), has_pairs}},
      {"num_valid_samples", {Reduction::count, static_cast<double>(preferences.size()), 1}}};
  return truth;
}

namespace {

const Registered registered_dpo{objective_entry(
    "dpo", "direct preference optimisation over pairs of chosen, rejected",
    [](const OptionReader& reader) { return DpoOptions::read(reader); },
    [](const DpoOptions& options) { return std::make_unique<DpoObjective<>>(options); })};

}  // namespace
}  // namespace lossgrid
