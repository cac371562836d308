// SPDX-License-Identifier: Apache-2.0
// Alternatives with another value of an option of the objective.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/objective_inputs.h"
#include "harness/verify/diagnosis/other_computations.h"

namespace lossgrid {
namespace {

/// True if the trial has all inputs of the other objective.
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

/// Adds numbers in place of an option that is not 0: its negative, and the other end of a range.
void add_numbers(const ObjectiveOptions& options, const std::string& option,
                 std::vector<std::string>& values) {
  const std::string& value = options.at(option);
  if (value.find_first_not_of("0123456789.-e+") != std::string::npos) return;
  values.push_back(value.starts_with('-') ? value.substr(1) : '-' + value);
  constexpr std::pair<std::string_view, std::string_view> kEnds[] = {{"_min", "_max"},
                                                                     {"_max", "_min"}};
  for (const auto& [end, other] : kEnds) {
    if (!option.ends_with(end)) continue;
    const auto at = options.find(option.substr(0, option.size() - end.size()) + std::string(other));
    if (at != options.end()) values.push_back(at->second);
  }
}

}  // namespace

std::vector<Alternative> other_options(const AlternativeInput& input) {
  std::vector<Alternative> all;
  const ObjectiveSpec spec = with_all_options(input.problem.spec.objective);
  std::vector<OptionDescription> options = describe_options(spec);
  std::sort(options.begin(), options.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (OptionDescription& option : options) {
    add_numbers(spec.options, option.name, option.choices);
    for (const std::string& value : option.choices) {
      if (value == option.value) continue;
      const auto known = option.frameworks.find(value);
      Alternative other{
          fmt::format("with objective.{}={}{}", option.name,
                      value.starts_with('"') ? value.substr(1, value.size() - 2) : value,
                      known == option.frameworks.end() ? "" : " (" + known->second + ")"),
          true, input.problem, nullptr};
      other.problem.spec.objective = spec;
      other.problem.spec.objective.options[option.name] = value;
      try {
        other.objective = input.make(other.problem.spec.objective);
      } catch (const Error&) {  // the option excludes another option
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

std::vector<Alternative> left_out_terms(const AlternativeInput& input) {
  std::vector<Alternative> all;
  const ObjectiveSpec spec = with_all_options(input.problem.spec.objective);
  for (const auto& [option, value] : spec.options) {
    const bool is_coefficient = option.ends_with("_penalty") || option.ends_with("_coefficient") ||
                                option.ends_with("_weight");
    if (!is_coefficient || value == "0.0") continue;
    Alternative other{fmt::format("with objective.{}=0: its term is detached?", option), false,
                      input.problem, nullptr};
    other.problem.spec.objective = spec;
    other.problem.spec.objective.options[option] = "0.0";
    try {
      other.objective = input.make(other.problem.spec.objective);
    } catch (const Error&) {  // another option needs this option
      continue;
    }
    if (has_inputs(input.objective->needs(), other.objective->needs())) {
      all.push_back(std::move(other));
    }
  }
  return all;
}

}  // namespace lossgrid
