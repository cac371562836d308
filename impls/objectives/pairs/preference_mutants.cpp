// SPDX-License-Identifier: Apache-2.0
// Mutants of `cpo`, `orpo` and `kto`: a scaled margin, sums in place of means, odds of rounded
// probabilities, another estimate of a KL, other labels and weights of examples.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "impls/mutants/mutant.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/pairs/kto.h"

namespace lossgrid {
namespace {

/// Objective of pairs whose sums over tokens are changed before use.
class WithChangedSums final : public Objective {
 public:
  using Change = void (*)(SequenceTable<double> sums);

  WithChangedSums(std::unique_ptr<Objective> own, Change change)
      : Objective(own->needs()), own_(std::move(own)), change_(change) {}

  std::string_view kind() const override { return own_->kind(); }
  ObjectiveSizes sizes() const override { return own_->sizes(); }
  std::shared_ptr<const InputDraw> input_draw() const override { return own_->input_draw(); }
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

/// Uses sums over tokens as means.
void of_one_token(SequenceTable<double> sums) {
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    sums.at(i, PairTerms::kTokens) = std::min(sums.at(i, PairTerms::kTokens), 1.0);
  }
}

/// Uses means that were converted to probabilities in bf16 and back.
void through_bf16(SequenceTable<double> sums) {
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    const double n = std::max(sums.at(i, PairTerms::kTokens), 1.0);
    const bf16 probability(static_cast<float>(std::exp(sums.at(i, PairTerms::kLogprob) / n)));
    sums.at(i, PairTerms::kLogprob) = n * std::log(static_cast<float>(probability));
  }
}

/// Uses the log-ratios of examples as log-ratios of their mismatched completions.
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
