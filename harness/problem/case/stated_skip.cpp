// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/stated_skip.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/case/case_sweep.h"
#include "harness/problem/case/checked_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// True if `spec` has every value of `text`, that is if setting the values changes nothing.
bool has_values(const CaseSpec& spec, const std::string& text) {
  CaseSpec with_values = spec;
  for (const auto& [key, value] : split_case_text(text)) set_case_key(with_values, key, value);
  return with_values == spec;
}

/// True if the name is the same, and `implementation` has every option of `stated`.
bool is_about(const std::string& stated, const std::string& implementation) {
  const std::vector<std::string> wanted = split(stated, ':');
  const std::vector<std::string> given = split(implementation, ':');
  return wanted.front() == given.front() &&
         std::all_of(wanted.begin() + 1, wanted.end(), [&](const std::string& option) {
           return std::find(given.begin() + 1, given.end(), option) != given.end();
         });
}

StatedSkip read_stated_skip(const Json& object, const std::string& where) {
  require_known_keys(object, {"implementation", "case", "reason"}, "skip", where);
  StatedSkip skip;
  skip.implementation = required_text(object, "implementation", where);
  skip.reason = required_text(object, "reason", where);
  for (const std::string* text : {&skip.implementation, &skip.reason}) {
    if (text->empty()) throw_bad_input("{}: an empty text", where);
  }
  if (!object.contains("case")) return skip;
  skip.cases = required_text(object, "case", where);
  try {
    parse_case(skip.cases);
  } catch (const Error& error) {
    throw_bad_input("{}: case: {}", where, error.what());
  }
  return skip;
}

}  // namespace

std::vector<StatedSkip> read_stated_skips(const Json& array, const std::string& where) {
  if (!array.is_array()) throw_bad_input("{} is not an array", where);
  std::vector<StatedSkip> skips;
  for (const Json& object : array) {
    skips.push_back(read_stated_skip(object, fmt::format("{}[{}]", where, skips.size())));
  }
  return skips;
}

std::vector<std::string> stated_reasons(const std::vector<StatedSkip>& skips,
                                        const std::string& implementation, const CaseSpec& spec) {
  std::vector<std::string> reasons;
  for (const StatedSkip& skip : skips) {
    if (is_about(skip.implementation, implementation) && has_values(spec, skip.cases)) {
      reasons.push_back(skip.reason);
    }
  }
  return reasons;
}

}  // namespace lossgrid
