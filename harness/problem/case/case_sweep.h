// SPDX-License-Identifier: Apache-2.0
// Words of the text form of cases and the assignment of one key. Internal to the text and JSON
// forms.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Splits "a=1 b=[2,3]" into {{"a", "1"}, {"b", "[2,3]"}}. Throws bad_input for a word without '=',
/// an empty key or value, and a repeated key.
std::vector<std::pair<std::string, std::string>> split_case_text(std::string_view text);

/// Sets `key` of `spec`, which may be any key, "objective" or "objective.NAME". Throws bad_input
/// that names the key (with the nearest known one) and the rule.
void set_case_key(CaseSpec& spec, std::string_view key, std::string_view text);

inline constexpr std::size_t kMaxSweptCases = 100'000;

}  // namespace lossgrid
