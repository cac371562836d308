// SPDX-License-Identifier: Apache-2.0
// `CaseRule`: a rule about several keys of a case, beyond the rule of each key alone (case_keys.h).
// Refusals of cases and the cases that a hunt draws follow from one list of rules.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

struct CaseRule {
  const char* name;  // the rule in a line of `lossgrid list keys`
  /// Returns the refusal of a case that breaks the rule, one line that names the keys.
  std::optional<std::string> (*refusal)(const CaseSpec& spec);
};

/// Returns the rules, in the order in which they are looked at.
std::span<const CaseRule> case_rules();

/// Returns the refusal of the first rule that the case breaks; nullopt if it breaks none.
std::optional<std::string> first_refusal(const CaseSpec& spec);

/// Throws bad_input with first_refusal().
void require_case_rules(const CaseSpec& spec);

/// Returns the case of a teacher's hidden states and weight, which nothing transforms.
CaseSpec case_of_teacher_projection(CaseSpec spec);

}  // namespace lossgrid
