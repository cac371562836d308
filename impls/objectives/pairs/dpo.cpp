// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/dpo.h"

#include <algorithm>
#include <numeric>

#include "harness/loss/registry.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
std::vector<std::size_t> DpoFormulas::order(const std::vector<double>& numbers,
                                            bool /*of_reference*/) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  return order;
}

ObjectiveNeeds dpo_needs(const DpoOptions& options) {
  ObjectiveNeeds needs = pair_needs(options.weights());
  needs.whole_batch = options.sorts();
  return needs;
}

PolicyEdges DpoSteps::edges() const {
  PolicyEdges edges = PairSteps::edges();
  // A chosen sequence with one more token than the rejected sequence is at the kink.
  const double beta = options_.beta();
  if (options_.loss_type == DpoLossType::hinge && beta > 0) edges.reference_offsets.add(-1 / beta);
  return edges;
}

ValueAndSlope DpoSteps::scored(const PackedBatch& batch, const PairSequence& sequence) const {
  const double n = tokens(batch, sequence);
  const ValueAndSlope of_sum = score(sequence.log_ratio);
  return {of_sum.value / n, of_sum.slope / n};
}

std::vector<PairLoss> DpoSteps::losses(const PackedBatch& batch,
                                       const std::vector<SequencePair>& pairs) const {
  std::vector<PairLoss> losses;
  if (options_.sorts()) {
    losses = losses_by_rank(batch, pairs);
  } else {
    for (const SequencePair& pair : pairs) {
      losses.push_back(
          pair_loss(scored(batch, pair.chosen).value, scored(batch, pair.rejected).value));
    }
  }
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    PairLoss& loss = losses[k];
    loss.by_chosen = chained(loss.by_chosen, scored(batch, pairs[k].chosen).slope);
    loss.by_rejected = chained(loss.by_rejected, scored(batch, pairs[k].rejected).slope);
    if (options_.use_weighting) loss = weighted(loss, pairs[k]);
  }
  return losses;
}

std::vector<PairLoss> DpoSteps::losses_by_rank(const PackedBatch& batch,
                                               const std::vector<SequencePair>& pairs) const {
  const bool is_unpaired = options_.loss_type == DpoLossType::aot_unpaired;
  std::vector<double> first;   // scores of the chosen, or differences of the policy
  std::vector<double> second;  // scores of the rejected, or differences of the reference
  for (const SequencePair& pair : pairs) {
    const double of_chosen = scored(batch, pair.chosen).value;
    const double of_rejected = scored(batch, pair.rejected).value;
    const double policy = pair.chosen.logprob / tokens(batch, pair.chosen) -
                          pair.rejected.logprob / tokens(batch, pair.rejected);
    first.push_back(is_unpaired ? of_chosen : policy);
    second.push_back(is_unpaired ? of_rejected : policy - (of_chosen - of_rejected));
  }
  const std::vector<std::size_t> first_order = order(first, false);
  const std::vector<std::size_t> second_order = order(second, true);
  std::vector<PairLoss> losses(pairs.size());
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    PairLoss& own = losses[first_order[rank]];
    PairLoss& other = losses[second_order[rank]];
    const PairLoss loss = pair_loss(first[first_order[rank]], second[second_order[rank]]);
    own.value = loss.value;
    own.by_chosen = loss.by_chosen;
    // The reference has no gradient: the policy's difference gets the gradients of both sequences.
    (is_unpaired ? other : own).by_rejected = loss.by_rejected;
  }
  return losses;
}

namespace {

const Registered registered_dpo{objective_entry(
    "dpo", "direct preference optimisation over pairs of chosen, rejected",
    [](const OptionReader& reader) { return DpoOptions::read(reader); },
    [](const DpoOptions& options) { return std::make_unique<DpoObjective<>>(options); })};

}  // namespace
}  // namespace lossgrid
