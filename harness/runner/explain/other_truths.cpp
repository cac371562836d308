// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/explain/other_truths.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/loss/framework_scale.h"
#include "harness/loss/registry.h"
#include "harness/problem/case/framework.h"
#include "harness/runner/rank/row_homes.h"
#include "harness/verify/diagnosis/other_computations.h"

namespace lossgrid {
namespace {

/// The results of a trial beside their truth and its alternatives.
class Comparison {
 public:
  explicit Comparison(const KeptTrial& trial)
      : setup_(trial.setup),
        results_(results_of(trial)),
        wrong_(wrong_parts(*setup_.problem, *setup_.truth, results_)) {}

  const ResultParts& wrong() const { return wrong_; }

  AlternativeInput input() const {
    return {*setup_.problem,
            setup_.objective,
            row_homes(setup_),
            setup_.grid.sp ? 1 : setup_.grid.tp,
            setup_.implementation->describe().outputs.logprobs,
            [this](const ObjectiveSpec& spec) { return make(spec); }};
  }

  /// True if the alternative is right where the truth is not; of a whole one, everywhere.
  bool fits(const Alternative& alternative) const {
    const ResultParts other = wrong_parts(alternative, results_);
    if (alternative.is_whole) return !other.any();
    return !(other.loss && wrong_.loss) && !(other.logprobs && wrong_.logprobs) &&
           !(other.gradients && wrong_.gradients);
  }

 private:
  static TrialResults results_of(const KeptTrial& trial) {
    const TrialSetup& setup = trial.setup;
    const ImplementationTraits traits = setup.implementation->describe();
    return {*trial.outcome.outputs,
            serial_adds(setup),
            {.logits = traits.rounds_logits,
             .log_sum_exp = traits.rounds_log_sum_exp,
             .temperature = traits.rounds_temperature,
             .quotient = traits.rounds_quotient},
            declared_roundings(setup),
            traits.outputs.grad_hidden};
  }

  std::shared_ptr<const Objective> make(const ObjectiveSpec& spec) const {
    const CaseSpec& of = setup_.problem->spec;
    std::shared_ptr<const Objective> objective =
        make_objective(spec, of.statistics, of.predictions);
    const auto framework = stated_framework(of.framework);
    return framework ? with_framework(std::move(objective), *framework,
                                      scale_sizes(*setup_.problem, setup_.grid))
                     : objective;
  }

  const TrialSetup& setup_;
  const TrialResults results_;
  const ResultParts wrong_;
};

/// Returns "loss and gradients", of those that are wrong.
std::string names_of(const ResultParts& parts) {
  std::vector<std::string> names;
  if (parts.loss) names.emplace_back("loss");
  if (parts.logprobs) names.emplace_back("log-probabilities");
  if (parts.gradients) names.emplace_back("gradients");
  return join(names, " and ");
}

/// Returns the causes of the alternatives that both fit. `make` makes those of a batch; the same
/// ones of each have the same cause.
template <typename Make>
std::vector<std::string> common_causes(const Comparison& first, const Comparison& second,
                                       Make&& make) {
  std::vector<std::string> causes;
  std::map<std::string, std::vector<Alternative>> others;
  bool has_others = false;
  for (const Alternative& alternative : make(first.input())) {
    const bool is_known =
        std::find(causes.begin(), causes.end(), alternative.cause) != causes.end();
    if (is_known || !first.fits(alternative)) continue;
    if (!has_others) {
      for (Alternative& other : make(second.input())) {
        others[other.cause].push_back(std::move(other));
      }
      has_others = true;
    }
    const std::vector<Alternative>& same = others[alternative.cause];
    if (std::any_of(same.begin(), same.end(),
                    [&](const Alternative& other) { return second.fits(other); })) {
      causes.push_back(alternative.cause);
    }
  }
  return causes;
}

}  // namespace

void add_causes_in_both(const KeptTrial& first, const KeptTrial& second, bool returns_loss,
                        std::vector<std::string>& sentences) {
  if (!first.outcome.outputs || !second.outcome.outputs) return;
  const Comparison here(first);
  const Comparison there(second);
  const ResultParts& wrong = here.wrong();
  if (!wrong.any() || !(wrong == there.wrong())) return;
  if (!wrong.logprobs) {
    const std::vector<std::string> options = common_causes(here, there, other_options);
    if (!options.empty()) {
      sentences.insert(sentences.begin(), "would be right " + join(options, ", or "));
      return;
    }
  }
  std::vector<std::vector<Alternative> (*)(const AlternativeInput&)> kinds{other_rows, other_sums};
  if (wrong == ResultParts{.gradients = true}) kinds.insert(kinds.begin(), left_out_terms);
  for (const auto make : kinds) {
    const std::vector<std::string> causes = common_causes(here, there, make);
    if (causes.empty()) continue;
    sentences.insert(sentences.begin(),
                     fmt::format("{} would be right {}", names_of(wrong), join(causes, "; or ")));
    return;
  }
  if (sentences.empty() && returns_loss && wrong == ResultParts{.gradients = true}) {
    sentences.emplace_back(
        "the loss is right and the gradients are not: they are not those of the loss that is "
        "returned?");
  }
}

}  // namespace lossgrid
