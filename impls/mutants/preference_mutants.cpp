// SPDX-License-Identifier: Apache-2.0
// Mutants of preference losses: another loss of a pair than the one of its name, a gradient that
// forgets a factor or a switch, lengths and ranks of other sequences, another estimate of a KL.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "impls/mutants/mutant.h"
#include "impls/objectives/dpo.h"
#include "impls/objectives/kto.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

/// Returns `dpo` with other formulas if `applies` to its options, else null.
template <class Formulas>
std::unique_ptr<Objective> dpo_with(const ObjectiveSpec& spec, bool (*applies)(const DpoOptions&)) {
  if (spec.kind != "dpo") return nullptr;
  const DpoOptions options = read_dpo_options(spec.options);
  if (!applies(options)) return nullptr;
  return std::make_unique<DpoObjective<Formulas>>(options);
}

template <DpoLossType type>
bool has_type(const DpoOptions& options) {
  return options.loss_type == type;
}

bool has_robust_smoothing(const DpoOptions& options) {
  return options.loss_type == DpoLossType::robust && options.label_smoothing > 0;
}

/// `RobustWithoutScale`: not divided by 1 - 2 e.
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

/// `SmoothingOfOtherSide`: e of the pair and 1 - e of the flipped one.
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

/// `AllTokensCount`: rewards divided by lengths with the tokens that are not trained on.
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

/// `HingeWithoutKink`: a gradient beyond the margin, too.
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

/// `NcaWithoutHalves`: the unlabelled half of both sequences counts whole.
struct NcaWithoutHalves : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double beta = options.beta();
    const double x = beta * a;
    const double y = beta * b;
    return {negative_log_sigmoid(x) + negative_log_sigmoid(-x) + negative_log_sigmoid(-y),
            beta * (sigmoid(x) - sigmoid(-x)), beta * sigmoid(y)};
  }
};

/// `SppoOfOneTarget`: both rewards are to be 1 / (2 beta).
struct SppoOfOneTarget : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double target = 1 / (2 * options.beta());
    return {(a - target) * (a - target) + (b - target) * (b - target), 2 * (a - target),
            2 * (b - target)};
  }
};

/// `ApoZeroForDown`: lowers no chosen sequence.
struct ApoZeroForDown : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    return apo_zero_loss(a, b, options.beta());
  }
};

/// `MixtureDetached`: no gradient of the mixture's share.
struct MixtureDetached : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    const double u = options.beta() * (a - b);
    const double share = sigmoid(u / options.discopop_tau);
    const double slope = -(1 - share) * sigmoid(-u) - share * std::exp(-u);
    return by_scores({DpoFormulas::pair_loss(options, a, b).value, slope}, options.beta());
  }
};

/// `ReferenceNotSorted`: pairs keep the references of their own.
struct ReferenceNotSorted : DpoFormulas {
  static std::vector<std::size_t> order(const std::vector<double>& numbers, bool of_reference) {
    if (!of_reference) return DpoFormulas::order(numbers, of_reference);
    std::vector<std::size_t> own(numbers.size());
    std::iota(own.begin(), own.end(), std::size_t{0});
    return own;
  }
};

/// `NothingSorted`: pairs as they stand.
struct NothingSorted : DpoFormulas {
  static std::vector<std::size_t> order(const std::vector<double>& numbers, bool) {
    return ReferenceNotSorted::order(numbers, true);
  }
};

/// `ScoreSlopeOfReverseKl`: the gradient without that of the score.
struct ScoreSlopeOfReverseKl : DpoFormulas {
  static ValueAndSlope score(const DpoOptions& options, double log_ratio) {
    return {DpoFormulas::score(options, log_ratio).value, 1};
  }
};

/// `DivergenceReversed`: forward KL of the ratio's inverse.
struct DivergenceReversed : DpoFormulas {
  static ValueAndSlope score(const DpoOptions&, double log_ratio) {
    return {std::expm1(log_ratio), std::exp(log_ratio)};
  }
};

/// Returns `dpo` whose tokens all count whole.
std::unique_ptr<Objective> without_tails(const ObjectiveSpec& spec) {
  if (spec.kind != "dpo") return nullptr;
  DpoOptions options = read_dpo_options(spec.options);
  if (options.weights().tail == 1) return nullptr;
  options.ld_alpha.reset();
  return std::make_unique<DpoObjective<>>(options);
}

/// Counts all tokens whole in the gradient.
void gradient_without_tails(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int /*cp*/,
                            SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, const TokenGradients& grad) {
  const std::vector<float> ones(tokens.weights.size(), 1.0f);
  ObjectiveTokens changed = tokens;
  changed.weights = ones;
  objective.token_terms(changed, batch, coefficients, totals, grad);
}

// --- without a reference ------------------------------------------------------------------------

/// An objective of pairs whose sums over tokens are changed before they are used.
class WithChangedSums final : public Objective {
 public:
  using Change = void (*)(SequenceTable<double> sums);

  WithChangedSums(std::unique_ptr<Objective> own, Change change)
      : own_(std::move(own)), change_(change) {}

  std::string_view kind() const override { return own_->kind(); }
  ObjectiveNeeds needs() const override { return own_->needs(); }
  ObjectiveSizes sizes() const override { return own_->sizes(); }
  std::vector<float> token_weights(const PackedBatch& batch,
                                   const ShiftedBatch& rows) const override {
    return own_->token_weights(batch, rows);
  }
  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    own_->sequence_sums(tokens, batch, sums);
  }
  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    std::vector<double> numbers;
    own_->coefficients(batch, changed(sums, numbers), coefficients);
  }
  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override {
    own_->token_terms(tokens, batch, coefficients, totals, gradients);
  }
  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    std::vector<double> numbers;
    return own_->finish(batch, changed(sums, numbers), coefficients, totals);
  }
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return own_->truth(batch, rows);
  }

 private:
  SequenceTable<const double> changed(SequenceTable<const double> sums,
                                      std::vector<double>& numbers) const {
    for (std::int64_t i = 0; i < sums.sequences; ++i) {
      for (int k = 0; k < sums.columns; ++k) numbers.push_back(sums.at(i, k));
    }
    const SequenceTable<double> copy(numbers.data(), sums.sequences, sums.columns, sums.columns);
    change_(copy);
    return copy;
  }

  std::unique_ptr<Objective> own_;
  Change change_;
};

std::unique_ptr<Objective> with_changed_sums(const ObjectiveSpec& spec,
                                             WithChangedSums::Change change) {
  return std::make_unique<WithChangedSums>(find_objective(spec.kind).make(spec.options), change);
}

/// Takes sums over tokens for means.
void of_one_token(SequenceTable<double> sums) {
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    sums.at(i, PairTerms::kTokens) = std::min(sums.at(i, PairTerms::kTokens), 1.0);
  }
}

/// Takes means that have been probabilities in bf16.
void through_bf16(SequenceTable<double> sums) {
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    const double n = std::max(sums.at(i, PairTerms::kTokens), 1.0);
    const bf16 probability(static_cast<float>(std::exp(sums.at(i, PairTerms::kLogprob) / n)));
    sums.at(i, PairTerms::kLogprob) = n * std::log(static_cast<float>(probability));
  }
}

/// Takes the log-ratios of examples for those of their mismatched completions.
void mismatched_as_examples(SequenceTable<double> sums) {
  for (std::int64_t i = 0; i + 1 < sums.sequences; i += 2) {
    sums.at(i + 1, PairTerms::kLogRatio) = sums.at(i, PairTerms::kLogRatio);
  }
}

double spec_number(const ObjectiveSpec& spec, const std::string& option, double fallback) {
  const auto at = spec.options.find(option);
  return at == spec.options.end() ? fallback : parse_number(at->second, option);
}

bool asks_for_simpo(const ObjectiveSpec& spec) {
  const auto type = spec.options.find("loss_type");
  return spec.kind == "cpo" && type != spec.options.end() && type->second == "\"simpo\"";
}

std::unique_ptr<Objective> simpo_gamma_times_beta(const ObjectiveSpec& spec) {
  if (!asks_for_simpo(spec)) return nullptr;
  ObjectiveOptions options = spec.options;
  options["simpo_gamma"] =
      fmt::format("{}", spec_number(spec, "beta", 0.1) * spec_number(spec, "simpo_gamma", 0.5));
  return find_objective("cpo").make(options);
}

std::unique_ptr<Objective> simpo_of_sums(const ObjectiveSpec& spec) {
  return asks_for_simpo(spec) ? with_changed_sums(spec, of_one_token) : nullptr;
}

std::unique_ptr<Objective> orpo_of_sums(const ObjectiveSpec& spec) {
  return spec.kind == "orpo" ? with_changed_sums(spec, of_one_token) : nullptr;
}

std::unique_ptr<Objective> orpo_in_bf16(const ObjectiveSpec& spec) {
  return spec.kind == "orpo" ? with_changed_sums(spec, through_bf16) : nullptr;
}

// --- examples -----------------------------------------------------------------------------------

/// Returns `kto` with other formulas if it estimates a KL, else null.
template <class Formulas>
std::unique_ptr<Objective> kto_with(const ObjectiveSpec& spec) {
  if (spec.kind != "kto") return nullptr;
  const KtoOptions options = KtoOptions::read(OptionReader(spec.options, "kto"));
  if (!options.estimates_kl) return nullptr;
  return std::make_unique<KtoObjective<Formulas>>(options);
}

struct KlBelowZero : KtoFormulas {
  static double reference_point(double mean) { return mean; }
};

struct KlWithGradient : KtoFormulas {
  static double reference_slope(double mean, std::size_t pairs) {
    return mean > 0 ? 1 / static_cast<double>(pairs) : 0;
  }
};

struct ZeroIsDesirable : KtoFormulas {
  static bool is_desirable(const PackedBatch& batch, const PairSequence& example) {
    return batch.rewards[static_cast<std::size_t>(example.index)] >= 0;
  }
};

struct LabelOfMismatched : KtoFormulas {
  static bool is_desirable(const PackedBatch& batch, const PairSequence& example) {
    return batch.rewards[static_cast<std::size_t>(example.index) + 1] > 0;
  }
};

std::unique_ptr<Objective> kto_weights_swapped(const ObjectiveSpec& spec) {
  const double desirable = spec_number(spec, "desirable_weight", 1);
  const double undesirable = spec_number(spec, "undesirable_weight", 1);
  if (spec.kind != "kto" || desirable == undesirable) return nullptr;
  ObjectiveOptions options = spec.options;
  options["desirable_weight"] = fmt::format("{}", undesirable);
  options["undesirable_weight"] = fmt::format("{}", desirable);
  return find_objective("kto").make(options);
}

std::unique_ptr<Objective> kl_of_examples(const ObjectiveSpec& spec) {
  const bool has_kl = kto_with<KtoFormulas>(spec) != nullptr;
  return has_kl ? with_changed_sums(spec, mismatched_as_examples) : nullptr;
}

const RegisteredMutant preference_mutants[] = {
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
        .name = "dpo_tail_counts_whole",
        .what = "ld_alpha is not read",
        .strategy = "cp_local",
        .objective = without_tails,
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
    RegisteredMutant({
        .catalogue_id = "M191",
        .name = "simpo_gamma_times_beta",
        .what = "simpo_gamma is a margin of rewards, and is multiplied by beta",
        .strategy = "cp_local",
        .objective = simpo_gamma_times_beta,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M192",
        .name = "simpo_of_sums",
        .what = "simpo of sums of log-probabilities, not of means",
        .strategy = "fused",
        .objective = simpo_of_sums,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M192",
        .name = "orpo_of_sums",
        .what = "odds of whole sequences, not of means of log-probabilities",
        .strategy = "cp_local",
        .objective = orpo_of_sums,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M193",
        .name = "orpo_probabilities_in_bf16",
        .what = "odds of probabilities that are rounded to bf16",
        .strategy = "fused",
        .objective = orpo_in_bf16,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M194",
        .name = "kto_kl_below_zero",
        .what = "the estimate of the KL is not clamped at 0",
        .strategy = "cp_local",
        .objective = kto_with<KlBelowZero>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M195",
        .name = "kto_kl_with_gradient",
        .what = "the estimate of the KL has a gradient",
        .strategy = "fused",
        .objective = kto_with<KlWithGradient>,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M195",
        .name = "kto_kl_of_examples",
        .what = "the KL is estimated from the examples",
        .strategy = "cp_local",
        .objective = kl_of_examples,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M196",
        .name = "kto_weights_swapped",
        .what = "desirable_weight for undesirable examples",
        .strategy = "cp_local",
        .objective = kto_weights_swapped,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M196",
        .name = "kto_zero_is_desirable",
        .what = "a reward of 0 makes an example desirable",
        .strategy = "fused",
        .objective = kto_with<ZeroIsDesirable>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M196",
        .name = "kto_label_of_mismatched",
        .what = "the label of an example is that of the sequence behind it",
        .strategy = "cp_local",
        .objective = kto_with<LabelOfMismatched>,
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
