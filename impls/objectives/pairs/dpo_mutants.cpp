// SPDX-License-Identifier: Apache-2.0
// Mutants of `dpo`: a loss of a pair other than the named loss, a gradient without a factor or a
// switch, lengths and ranks of other sequences.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "impls/mutants/mutant.h"
#include "impls/objectives/pairs/dpo_with.h"

namespace lossgrid {
namespace {

template <DpoLossType type>
bool has_type(const DpoOptions& options) {
  return options.loss_type == type;
}

bool has_robust_smoothing(const DpoOptions& options) {
  return options.loss_type == DpoLossType::robust && options.label_smoothing > 0;
}

/// `RobustWithoutScale`: the loss is not divided by 1 - 2 e.
struct RobustWithoutScale : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const PairLoss loss = DpoFormulas::pair_loss(options, a, b);
    const double scale = 1 - 2 * options.label_smoothing;
    return {scale * loss.value, scale * loss.by_chosen, scale * loss.by_rejected};
  }
};

/// `RobustAsSmoothed`: the flipped labels are added.
struct RobustAsSmoothed : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    return by_scores(sigmoid_loss(options.beta() * (a - b), options.label_smoothing),
                     options.beta());
  }
};

/// `SmoothingOfOtherSide`: the pair has weight e and the flipped pair 1 - e.
struct SmoothingOfOtherSide : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    DpoOptions flipped = options;
    flipped.label_smoothing = 1 - options.label_smoothing;
    return DpoFormulas::pair_loss(flipped, a, b);
  }
};

/// `IpoOfSums`: rewards are not divided by lengths.
struct IpoOfSums : DpoFormulas {
  static double divisor(const PackedBatch&, const PairSequence&) { return 1; }
};

/// `AllTokensCount`: rewards are divided by lengths that include untrained tokens.
struct AllTokensCount : DpoFormulas {
  static double divisor(const PackedBatch& batch, const PairSequence& sequence) {
    return std::max(1.0, static_cast<double>(batch.length(sequence.index)));
  }
};

/// `IpoTargetOfBeta`: the target is beta / 2.
struct IpoTargetOfBeta : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    return ipo_loss(a, b, 1 / options.beta());
  }
};

/// `HingeWithoutKink`: the gradient continues beyond the margin.
struct HingeWithoutKink : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double beta = options.beta();
    return {DpoFormulas::pair_loss(options, a, b).value, -beta, beta};
  }
};

/// `ExoForward`: the divergence of the labels from the model.
struct ExoForward : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double e = options.label_smoothing;
    ValueAndSlope loss = sigmoid_loss(options.beta() * (a - b), e);
    loss.value += (1 - e) * std::log1p(-e) + e * std::log(e);
    return by_scores(loss, options.beta());
  }
};

/// `NcaWithoutHalves`: the unlabelled terms of both sequences count fully instead of half.
struct NcaWithoutHalves : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double beta = options.beta();
    const double x = beta * a;
    const double y = beta * b;
    return {negative_log_sigmoid(x) + negative_log_sigmoid(-x) + negative_log_sigmoid(-y),
            beta * (sigmoid(x) - sigmoid(-x)), beta * sigmoid(y)};
  }
};

/// `SppoOfOneTarget`: the target of both rewards is 1 / (2 beta).
struct SppoOfOneTarget : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double target = 1 / (2 * options.beta());
    return {(a - target) * (a - target) + (b - target) * (b - target), 2 * (a - target),
            2 * (b - target)};
  }
};

/// `ApoZeroForDown`: does not lower chosen sequences.
struct ApoZeroForDown : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    return apo_zero_loss(a, b, options.beta());
  }
};

/// `MixtureDetached`: the mixture's share has no gradient.
struct MixtureDetached : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double u = options.beta() * (a - b);
    const double share = sigmoid(u / options.discopop_tau);
    const double slope = -(1 - share) * sigmoid(-u) - share * std::exp(-u);
    return by_scores({DpoFormulas::pair_loss(options, a, b).value, slope}, options.beta());
  }
};

/// `ReferenceNotSorted`: pairs keep their own references.
struct ReferenceNotSorted : DpoFormulas {
  static std::vector<std::size_t> order(const std::vector<double>& numbers, bool of_reference) {
    if (!of_reference) return DpoFormulas::order(numbers, of_reference);
    std::vector<std::size_t> own(numbers.size());
    std::iota(own.begin(), own.end(), std::size_t{0});
    return own;
  }
};

/// `NothingSorted`: pairs are not sorted.
struct NothingSorted : DpoFormulas {
  static std::vector<std::size_t> order(const std::vector<double>& numbers, bool) {
    return ReferenceNotSorted::order(numbers, true);
  }
};

/// `ScoreSlopeOfReverseKl`: the gradient lacks the derivative of the score.
struct ScoreSlopeOfReverseKl : DpoFormulas {
  static ValueAndSlope score(const DpoOptions& options, double log_ratio) {
    return {DpoFormulas::score(options, log_ratio).value, 1};
  }
};

/// `DivergenceReversed`: the forward KL of the inverse ratio.
struct DivergenceReversed : DpoFormulas {
  static ValueAndSlope score(const DpoOptions&, double log_ratio) {
    return {std::expm1(log_ratio), std::exp(log_ratio)};
  }
};

/// Gives all tokens weight 1 in the gradient.
void gradient_without_tails(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int /*cp*/,
                            SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, const TokenGradients& grad) {
  const std::vector<float> ones(tokens.weights.size(), 1.0f);
  ObjectiveTokens changed = tokens;
  changed.weights = ones;
  objective.token_terms(changed, batch, coefficients, totals, grad);
}

const RegisteredMutant dpo_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M180",
        .name = "dpo_robust_without_scale",
        .what = "robust is not divided by 1 - 2 label_smoothing",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<RobustWithoutScale>(s, has_robust_smoothing);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M180",
        .name = "dpo_robust_as_smoothed",
        .what = "robust adds the loss of the flipped pair",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<RobustAsSmoothed>(s, has_robust_smoothing);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M181",
        .name = "dpo_smoothing_of_other_side",
        .what = "label smoothing e is 1 - e",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<SmoothingOfOtherSide>(s, [](const DpoOptions& o) {
                return o.loss_type == DpoLossType::sigmoid && o.label_smoothing > 0;
              });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M182",
        .name = "dpo_ipo_of_sums",
        .what = "ipo of sums of log-probabilities, not of means",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<IpoOfSums>(s, [](const DpoOptions& o) {
                return o.loss_type == DpoLossType::ipo && o.averages();
              });
            },
        .seen_in = "OpenRLHF, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M182",
        .name = "dpo_ipo_target_of_beta",
        .what = "ipo with the target beta / 2",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<IpoTargetOfBeta>(s, has_type<DpoLossType::ipo>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M183",
        .name = "dpo_means_over_all_tokens",
        .what = "rewards divided by lengths with the tokens that are not trained on",
        .strategy = "cp_gather_logits",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<AllTokensCount>(s, has_type<DpoLossType::sigmoid_norm>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M184",
        .name = "dpo_hinge_without_kink",
        .what = "hinge has a gradient beyond the margin",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<HingeWithoutKink>(s, has_type<DpoLossType::hinge>);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M185",
        .name = "dpo_exo_forward",
        .what = "exo_pair with the divergence of the labels from the model",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<ExoForward>(s, has_type<DpoLossType::exo_pair>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M186",
        .name = "dpo_nca_without_halves",
        .what = "nca_pair without its factors of a half",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<NcaWithoutHalves>(s, has_type<DpoLossType::nca_pair>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M186",
        .name = "dpo_sppo_of_one_target",
        .what = "sppo_hard with the winner's target for the loser, too",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<SppoOfOneTarget>(s, has_type<DpoLossType::sppo_hard>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M187",
        .name = "dpo_apo_zero_for_down",
        .what = "apo_down is apo_zero",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<ApoZeroForDown>(s, has_type<DpoLossType::apo_down>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M188",
        .name = "dpo_discopop_mixture_detached",
        .what = "the share of discopop's two losses has no gradient",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<MixtureDetached>(s, has_type<DpoLossType::discopop>);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M189",
        .name = "dpo_aot_reference_not_sorted",
        .what = "aot sorts the policy's differences alone",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<ReferenceNotSorted>(s, has_type<DpoLossType::aot>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M189",
        .name = "dpo_aot_nothing_sorted",
        .what = "aot_unpaired compares the sequences of a pair",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<NothingSorted>(s, has_type<DpoLossType::aot_unpaired>);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M190",
        .name = "dpo_score_slope_lost",
        .what = "the gradient without the derivative of an f-divergence's score",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<ScoreSlopeOfReverseKl>(s, [](const DpoOptions& o) {
                return o.f_divergence_type != FDivergence::reverse_kl;
              });
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M190",
        .name = "dpo_divergence_reversed",
        .what = "the forward KL's score of the inverse of the ratio",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& s) {
              return dpo_with<DivergenceReversed>(s, [](const DpoOptions& o) {
                return o.f_divergence_type == FDivergence::forward_kl;
              });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M197",
        .name = "dpo_tail_gradient_whole",
        .what = "the gradient of a tail without ld_alpha",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = gradient_without_tails; },
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
