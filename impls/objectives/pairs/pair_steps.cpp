// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/pair_steps.h"

#include <algorithm>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

/// Returns the pairs of the global batch.
double pairs_of_all(const PackedBatch& batch) {
  return static_cast<double>(batch.denominators.valid_sequences) / 2;
}

PairSequence sequence_totals(SequenceTable<const double> sums, std::int64_t i) {
  return {
      .index = i,
      .tokens = sums.at(i, PairTerms::kTokens),
      .logprob = sums.at(i, PairTerms::kLogprob),
      .log_ratio = sums.at(i, PairTerms::kLogRatio),
      .alignment = sums.columns > PairTerms::kAlignment ? sums.at(i, PairTerms::kAlignment) : 0};
}

std::int64_t valid_tokens(const PackedBatch& batch, std::int64_t i) {
  std::int64_t count = 0;
  for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
    count += batch.token_mask[batch.cu_seqlens[i] + t] != 0 ? 1 : 0;
  }
  return count;
}

double valid_pairs(const PackedBatch& batch) {
  double samples = 0;
  for (const std::uint8_t mask : batch.sample_mask) samples += mask;
  return samples / 2;
}

}  // namespace

void require_pairs(std::string_view kind, const PackedBatch& batch) {
  if (batch.sequences() % 2 != 0) {
    throw_bad_input("{}: sequence {} has no partner: sequences come in pairs of chosen, rejected",
                    kind, batch.sequences() - 1);
  }
  for (std::int64_t i = 0; i < batch.sequences(); i += 2) {
    if (batch.sample_mask[i] == batch.sample_mask[i + 1]) continue;
    throw_bad_input(
        "{}: sequences {} and {} have sample masks {} and {}: a pair is trained on as a whole",
        kind, i, i + 1, batch.sample_mask[i], batch.sample_mask[i + 1]);
  }
}

ObjectiveNeeds pair_needs(const PairWeights& weights) {
  ObjectiveNeeds needs;
  needs.inputs[static_cast<int>(TokenInput::reference_policy_logprobs)] = weights.has_reference;
  needs.sequences_per_unit = 2;
  needs.token_weights = weights.tail != 1;
  needs.predictions = needs.probability_weights = weights.weighs_pairs;
  return needs;
}

std::shared_ptr<const InputDraw> PairSteps::input_draw() const {
  return std::make_shared<PolicyDraw>(edges());
}

PolicyEdges PairSteps::edges() const {
  PolicyEdges edges;
  edges.sequences_per_edge = 2;  // one offset for a pair, whose rewards are nearly equal
  return edges;
}

ObjectiveSizes PairSteps::sizes() const {
  ObjectiveSizes sizes;
  sizes.sequence_sums = weights_.weighs_pairs ? PairTerms::kSequenceSums : PairTerms::kAlignment;
  sizes.coefficients = PairTerms::kCoefficients;
  return sizes;
}

void PairSteps::require(const PackedBatch& batch) const {
  require_pairs(kind(), batch);
}

std::vector<SequencePair> PairSteps::pairs(const PackedBatch& batch,
                                           SequenceTable<const double> sums) const {
  std::vector<SequencePair> pairs;
  const double all = pairs_of_all(batch);
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    if (!is_chosen(i) || batch.sample_mask[i] == 0 || all == 0) continue;
    pairs.push_back({sequence_totals(sums, i), sequence_totals(sums, partner(batch, i)), 1 / all});
  }
  return pairs;
}

std::vector<float> PairSteps::token_weights(const PackedBatch& batch,
                                            const ShiftedBatch& rows) const {
  if (weights_.tail == 1) return {};
  std::vector<std::int64_t> shorter;  // by sequence, valid tokens of its pair's shorter one
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    shorter.push_back(std::min(valid_tokens(batch, i), valid_tokens(batch, partner(batch, i))));
  }
  std::vector<float> weights;
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    const bool is_tail = rows.ordinal[row] >= shorter[static_cast<std::size_t>(rows.sequence[row])];
    weights.push_back(is_tail ? static_cast<float>(weights_.tail) : 1.0f);
  }
  return weights;
}

void PairSteps::coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                             SequenceTable<double> coefficients) const {
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    for (int k = 0; k < PairTerms::kCoefficients; ++k) coefficients.at(i, k) = 0;
  }
  const std::vector<SequencePair> pairs = this->pairs(batch, sums);
  const std::vector<PairLoss> losses = this->losses(batch, pairs);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto& [chosen, rejected, weight] = pairs[k];
    const double preference = weight * weights_.preference;
    coefficients.at(chosen.index, PairTerms::kPreference) = preference * losses[k].by_chosen;
    coefficients.at(chosen.index, PairTerms::kSft) = -weight * weights_.sft / sft_tokens(chosen);
    coefficients.at(rejected.index, PairTerms::kPreference) = preference * losses[k].by_rejected;
  }
}

ObjectiveResult PairSteps::finish(const PackedBatch& batch, SequenceTable<const double> sums,
                                  SequenceTable<const double> /*coefficients*/,
                                  ObjectiveTotals<const double> /*totals*/) const {
  double preference = 0;
  double sft = 0;
  const std::vector<SequencePair> pairs = this->pairs(batch, sums);
  const std::vector<PairLoss> losses = this->losses(batch, pairs);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const PairSequence& chosen = pairs[k].chosen;
    preference += pairs[k].weight * losses[k].value;
    sft -= pairs[k].weight * chosen.logprob / sft_tokens(chosen);
  }
  if (weights_.sft == 0) sft = 0;
  const double loss = weights_.sft * sft + weights_.preference * preference;
  ObjectiveResult result{loss,
                         {{"loss", {Reduction::sum, loss, 1}},
                          {"preference_loss", {Reduction::sum, preference, 1}},
                          {"sft_loss", {Reduction::sum, sft, 1}},
                          {"num_valid_samples", {Reduction::count, valid_pairs(batch), 1}}}};
  add_metrics(batch, pairs, result.metrics);
  return result;
}

void PairSteps::add_metrics(const PackedBatch& batch, const std::vector<SequencePair>& pairs,
                            Metrics& metrics) const {
  double accuracy = 0;
  double of_chosen = 0;
  double of_rejected = 0;
  for (const SequencePair& pair : pairs) {
    accuracy += reward_difference(batch, pair) > 0 ? pair.weight : 0;
    of_chosen += pair.weight * reward(batch, pair.chosen);
    of_rejected += pair.weight * reward(batch, pair.rejected);
  }
  const double has_pairs = pairs_of_all(batch) > 0 ? 1 : 0;
  metrics["accuracy"] = {Reduction::sum, accuracy, has_pairs};
  metrics["rewards_chosen_mean"] = {Reduction::sum, of_chosen, has_pairs};
  metrics["rewards_rejected_mean"] = {Reduction::sum, of_rejected, has_pairs};
}

}  // namespace lossgrid
