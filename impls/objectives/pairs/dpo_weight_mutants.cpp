// SPDX-License-Identifier: Apache-2.0
// Mutants of the weights of pairs in `dpo` (WPO): weights from other tokens or sequences, and
// weights with a gradient.
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/pairs/dpo_with.h"

namespace lossgrid {
namespace {

/// `WeightIsProduct`: the weight of a sequence is the product over its tokens.
struct WeightIsProduct : DpoFormulas {
  static PairLoss weighted(const PairLoss& loss, const SequencePair& pair) {
    const double weight = std::exp(pair.chosen.alignment + pair.rejected.alignment);
    return {weight * loss.value, weight * loss.by_chosen, weight * loss.by_rejected};
  }
};

/// `WeightOfChosen`: the weight of the rejected sequence is forgotten.
struct WeightOfChosen : DpoFormulas {
  static PairLoss weighted(const PairLoss& loss, const SequencePair& pair) {
    const double weight = pair.chosen.weight();
    return {weight * loss.value, weight * loss.by_chosen, weight * loss.by_rejected};
  }
};

/// `WeightHasGradient`: the gradient of the weights' log-probabilities is added.
struct WeightHasGradient : DpoFormulas {
  static PairLoss weighted(const PairLoss& loss, const SequencePair& pair) {
    const PairLoss right = DpoFormulas::weighted(loss, pair);
    return {right.value, right.by_chosen + right.value / pair.chosen.tokens_or_one(),
            right.by_rejected + right.value / pair.rejected.tokens_or_one()};
  }
};

bool is_weighted(const DpoOptions& options) {
  return options.use_weighting;
}

const RegisteredMutant dpo_weight_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M178",
        .name = "dpo_weight_is_product",
        .what = "weights of pairs are products over tokens, not geometric means",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) { return dpo_with<WeightIsProduct>(s, is_weighted); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M178",
        .name = "dpo_weight_of_chosen",
        .what = "pairs are weighted by the chosen sequence alone",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) { return dpo_with<WeightOfChosen>(s, is_weighted); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M178",
        .name = "dpo_weight_has_gradient",
        .what = "weights of pairs are not detached",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) { return dpo_with<WeightHasGradient>(s, is_weighted); },
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
