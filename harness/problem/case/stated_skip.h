// SPDX-License-Identifier: Apache-2.0
// `StatedSkip`: cases that an implementation of a suite rightly refuses. A suite states all such
// cases, so that an implementation that refuses another case fails instead of passing unnoticed.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

struct StatedSkip {
  std::string implementation;  // "name", or "name:option=value" for this option only
  std::string cases;           // "key=value ...", for cases with these values; empty: all cases
  std::string reason;          // part of the implementation's reason
};

/// Reads `skips` of a suite, an array of objects with "implementation", "reason" and optionally
/// "case". Throws bad_input that begins with `where`.
std::vector<StatedSkip> read_stated_skips(const nlohmann::ordered_json& array,
                                          const std::string& where);

/// Returns the reasons of the skips for `implementation` ("name:option=value") and `spec`.
std::vector<std::string> stated_reasons(const std::vector<StatedSkip>& skips,
                                        const std::string& implementation, const CaseSpec& spec);

}  // namespace lossgrid
