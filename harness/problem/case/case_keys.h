// SPDX-License-Identifier: Apache-2.0
// Table of the case keys: one entry drives the text form, the JSON form, the default, the check and
// the error message of a key, so that a new key is one line in case_keys.cpp. `objective` and
// `objective.NAME` are not in the table, because their names are open (see case_spec.cpp).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// JSON type of a key's value.
enum class JsonType { text, number, boolean };

/// One key of a case: its name, its JSON type and the access to its value.
struct CaseKey {
  std::string name;
  JsonType type = JsonType::text;
  /// Returns the value as text, as after the '=' in the text form.
  std::function<std::string(const CaseSpec&)> get;
  /// Checks and stores a value. Throws bad_input that names the key and the rule.
  std::function<void(CaseSpec&, std::string_view)> set;
  std::string help = {};  // one line for `lossgrid list keys`
  // Values that decide something in a small case, as text: all names of an enumeration. Empty for a
  // key whose values follow from others, as lengths and seeds do.
  std::vector<std::string> draws = {};
  // True if no value changes a number of the truth: keys of layouts, padding and poison.
  bool keeps_numbers = false;
};

/// Returns the table, in declaration order.
std::span<const CaseKey> case_keys();

/// Returns the key `name`; null for an unknown name.
const CaseKey* find_case_key(std::string_view name);

/// Returns the names of the table and "objective", for messages.
const std::vector<std::string>& case_key_names();

/// Returns the keys that state a framework's convention, for the table.
std::vector<CaseKey> framework_keys();

/// True if `lens` holds lengths ("5+8+1+3") and not the name of a distribution.
bool has_explicit_lengths(const CaseSpec& spec);

/// Parses lengths: "5+8+1+3" -> {5, 8, 1, 3}. Throws bad_input.
std::vector<std::int64_t> parse_lengths(std::string_view text);

/// Prefix of a mask's text: prompt16 masks the first 16 tokens of each sequence.
inline constexpr std::string_view kPromptMask = "prompt";

inline constexpr std::int64_t kMaxSequences = 1'000'000;
inline constexpr std::int64_t kMaxTokens = 2'147'483'647;
inline constexpr std::int64_t kMaxHidden = std::int64_t{1} << 24;

}  // namespace lossgrid
