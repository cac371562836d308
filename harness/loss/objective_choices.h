// SPDX-License-Identifier: Apache-2.0
// Values of an objective's options that a user may have meant in the place of those of a case: all
// names of an enumeration, true and false, and of numbers the one that leaves a term out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

using ObjectiveChoices = std::map<std::string, std::vector<std::string>>;  // by option, JSON texts

/// Makes known how the choices of a kind are found, from options that are given.
void register_choices(
    const std::string& kind,
    std::function<ObjectiveChoices(const std::map<std::string, std::string>& options)> choices);

/// Returns the choices of an objective; none for a kind that has none. Throws bad_input for options
/// that are.
ObjectiveChoices choices_of(const ObjectiveSpec& spec);

}  // namespace lossgrid
