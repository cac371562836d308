// SPDX-License-Identifier: Apache-2.0
// Alternatives that state another value of an option of the objective.
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/loss/objective_choices.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/objective_inputs.h"
#include "harness/verify/other_computations.h"

namespace lossgrid {
namespace {

/// True if all that the other objective reads is there.
bool has_inputs(const ObjectiveNeeds& has, const ObjectiveNeeds& needs) {
  for (std::size_t k = 0; k < needs.inputs.size(); ++k) {
    if (needs.inputs[k] && !has.inputs[k]) return false;
  }
  const Divergence& ours = has.terms.divergence;
  const Divergence& other = needs.terms.divergence;
  return has.rewards >= needs.rewards && has.group_size == needs.group_size &&
         has.packs_are_groups == needs.packs_are_groups && has.head == needs.head &&
         has.sequences_per_unit == needs.sequences_per_unit && ours.is_any() == other.is_any() &&
         ours.takes_logprobs() == other.takes_logprobs() && !needs.draws && !has.draws;
}

/// Frameworks whose definition an option's value is (docs/objectives.md).
std::string frameworks_of(const std::string& option, const std::string& value) {
  struct Known {
    std::string_view option;
    std::string_view value;
    std::string_view frameworks;
  };
  constexpr Known kKnown[] = {
      {"kl_gradient", "\"score\"", "NeMo-RL"},
      {"kl_gradient", "\"value\"", "verl, TRL, SkyRL"},
      {"kl_gradient", "\"straight-through\"", "verl k3+"},
      {"kl_gradient", "\"importance\"", "OpenRLHF"},
      {"kl_gradient", "\"ratio\"", "TRL use_bias_correction_kl"},
  };
  for (const Known& known : kKnown) {
    if (known.option == option && known.value == value) {
      return " (" + std::string(known.frameworks) + ")";
    }
  }
  return "";
}

}  // namespace

std::vector<Alternative> other_options(const AlternativeInput& input) {
  std::vector<Alternative> all;
  const ObjectiveSpec spec = with_all_options(input.problem.spec.objective);
  for (const auto& [option, values] : choices_of(spec)) {
    for (const std::string& value : values) {
      if (value == spec.options.at(option)) continue;
      Alternative other{
          fmt::format("with objective.{}={}{}", option,
                      value.starts_with('"') ? value.substr(1, value.size() - 2) : value,
                      frameworks_of(option, value)),
          true, input.problem, nullptr};
      other.problem.spec.objective = spec;
      other.problem.spec.objective.options[option] = value;
      try {
        other.objective = input.make(other.problem.spec.objective);
      } catch (const Error&) {  // it excludes another option
        continue;
      }
      if (!has_inputs(input.objective->needs(), other.objective->needs())) continue;
      if (other.objective->needs().sequence_counts) {
        other.problem.denominators.all_sequences = input.problem.sequences();
      }
      all.push_back(std::move(other));
    }
  }
  return all;
}

}  // namespace lossgrid
