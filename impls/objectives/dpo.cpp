// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/dpo.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/loss/terms_kernels.h"
#include "impls/objectives/dpo_terms.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

constexpr auto kLogRatio = DpoTerms::kLogRatio;
constexpr auto kLogprob = DpoTerms::kLogprob;
constexpr auto kTokens = DpoTerms::kTokens;

/// Returns the pairs of the global batch.
double global_pairs(const PackedBatch& batch) {
  return static_cast<double>(batch.denominators.valid_sequences) / 2;
}

/// Returns the share of the pair of sequence i in the loss.
double pair_weight(const PackedBatch& batch, std::int64_t i) {
  const double pairs = global_pairs(batch);
  return pairs > 0 && batch.sample_mask[i] != 0 ? 1 / pairs : 0;
}

/// Returns a derivative by the rule of the chain; a loss that does not move is no 0 * infinity.
double chained(double by_score, double score_slope) {
  return by_score == 0 ? 0 : by_score * score_slope;
}

double valid_pairs(const PackedBatch& batch) {
  double samples = 0;
  for (const std::uint8_t mask : batch.sample_mask) samples += mask;
  return samples / 2;
}

}  // namespace

std::vector<std::size_t> DpoFormulas::order(const std::vector<double>& numbers,
                                            bool /*of_reference*/) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  return order;
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

DpoSteps::Sequence DpoSteps::sequence(const PackedBatch& batch, SequenceTable<const double> sums,
                                      std::int64_t i) const {
  const double n = options_.averages() ? divisor(batch, i, sums.at(i, kTokens)) : 1;
  const ValueAndSlope of_sum = score(sums.at(i, kLogRatio));
  return {.index = i,
          .logprob = {sums.at(i, kLogprob) / n, 1 / n},
          .score = {of_sum.value / n, of_sum.slope / n}};
}

std::vector<DpoSteps::Pair> DpoSteps::pairs(const PackedBatch& batch,
                                            SequenceTable<const double> sums) const {
  std::vector<Pair> pairs;
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    const double weight = pair_weight(batch, i);
    if (!is_chosen(i) || weight == 0) continue;
    pairs.push_back({sequence(batch, sums, i), sequence(batch, sums, partner(batch, i)), weight});
  }
  return pairs;
}

std::vector<DpoPairLoss> DpoSteps::losses(const std::vector<Pair>& pairs) const {
  if (options_.sorts()) return losses_by_rank(pairs);
  std::vector<DpoPairLoss> losses;
  for (const Pair& pair : pairs) {
    losses.push_back(pair_loss(pair.chosen.score.value, pair.rejected.score.value));
  }
  return losses;
}

std::vector<DpoPairLoss> DpoSteps::losses_by_rank(const std::vector<Pair>& pairs) const {
  const bool is_unpaired = options_.loss_type == DpoLossType::aot_unpaired;
  std::vector<double> first;   // scores of the chosen, or differences of the policy
  std::vector<double> second;  // scores of the rejected, or differences of the reference
  for (const Pair& pair : pairs) {
    const double policy = pair.chosen.logprob.value - pair.rejected.logprob.value;
    const double gained = pair.chosen.score.value - pair.rejected.score.value;
    first.push_back(is_unpaired ? pair.chosen.score.value : policy);
    second.push_back(is_unpaired ? pair.rejected.score.value : policy - gained);
  }
  const std::vector<std::size_t> first_order = order(first, false);
  const std::vector<std::size_t> second_order = order(second, true);
  std::vector<DpoPairLoss> losses(pairs.size());
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    DpoPairLoss& own = losses[first_order[rank]];
    DpoPairLoss& other = losses[second_order[rank]];
    const DpoPairLoss loss = pair_loss(first[first_order[rank]], second[second_order[rank]]);
    own.value = loss.value;
    own.by_chosen = loss.by_chosen;
    // The reference has no gradient: the policy's difference has that of both sequences.
    (is_unpaired ? other : own).by_rejected = loss.by_rejected;
  }
  return losses;
}

void DpoSteps::sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& /*batch*/,
                             SequenceTable<double> sums) const {
  add_sequence_sums(DpoTerms(), tokens, sums);
}

void DpoSteps::coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                            SequenceTable<double> coefficients) const {
  for (std::int64_t i = 0; i < sums.sequences; ++i) coefficients.at(i, 0) = 0;
  const std::vector<Pair> pairs = this->pairs(batch, sums);
  const std::vector<DpoPairLoss> losses = this->losses(pairs);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto& [chosen, rejected, weight] = pairs[k];
    const double preference = weight * options_.preference_loss_weight;
    const double sft_tokens =
        options_.sft_average_log_probs ? std::max(1.0, sums.at(chosen.index, kTokens)) : 1;
    coefficients.at(chosen.index, 0) =
        preference * chained(losses[k].by_chosen, chosen.score.slope) -
        weight * options_.sft_loss_weight / sft_tokens;
    coefficients.at(rejected.index, 0) =
        preference * chained(losses[k].by_rejected, rejected.score.slope);
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
  double chosen_rewards = 0;
  double rejected_rewards = 0;
  const std::vector<Pair> pairs = this->pairs(batch, sums);
  const std::vector<DpoPairLoss> losses = this->losses(pairs);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto& [chosen, rejected, weight] = pairs[k];
    const double sft_tokens =
        options_.sft_average_log_probs ? std::max(1.0, sums.at(chosen.index, kTokens)) : 1;
    preference += weight * losses[k].value;
    sft -= weight * sums.at(chosen.index, kLogprob) / sft_tokens;
    accuracy += chosen.score.value > rejected.score.value ? weight : 0;
    chosen_rewards += weight * chosen.score.value;
    rejected_rewards += weight * rejected.score.value;
  }
  if (options_.sft_loss_weight == 0) sft = 0;
  const double loss = options_.sft_loss_weight * sft + options_.preference_loss_weight * preference;
  const double has_pairs = global_pairs(batch) > 0 ? 1 : 0;
  return {loss,
          {{"loss", {Reduction::sum, loss, 1}},
           {"preference_loss", {Reduction::sum, preference, 1}},
           {"sft_loss", {Reduction::sum, sft, 1}},
           {"accuracy", {Reduction::sum, accuracy, has_pairs}},
           {"rewards_chosen_mean", {Reduction::sum, chosen_rewards, has_pairs}},
           {"rewards_rejected_mean", {Reduction::sum, rejected_rewards, has_pairs}},
           {"num_valid_samples", {Reduction::count, valid_pairs(batch), 1}}}};
}

namespace {

const Registered registered_dpo{objective_entry(
    "dpo", "direct preference optimisation over pairs of chosen, rejected",
    [](const OptionReader& reader) { return DpoOptions::read(reader); },
    [](const DpoOptions& options) { return std::make_unique<DpoObjective<>>(options); })};

}  // namespace
}  // namespace lossgrid
