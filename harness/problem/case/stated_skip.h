// SPDX-License-Identifier: Apache-2.0
// `StatedSkip`: cases that an implementation of a suite refuses, and is right to. A suite states
// all of them, so that an implementation that refuses any other case fails instead of passing
// unseen.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

struct StatedSkip {
  std::string implementation;  // "name", or "name:option=value" for those with that option
  std::string cases;           // "key=value ...", for the cases with these values; empty: all
  std::string reason;          // part of the reason that the implementation gives
};

/// Reads `skips` of a suite, an array of objects with "implementation", "reason" and optionally
/// "case". Throws bad_input that begins with `where`.
std::vector<StatedSkip> read_stated_skips(const nlohmann::ordered_json& array,
                                          const std::string& where);

/// Returns the reasons of the skips that are about `implementation` ("name:option=value") and
/// `spec`.
std::vector<std::string> stated_reasons(const std::vector<StatedSkip>& skips,
                                        const std::string& implementation, const CaseSpec& spec);

}  // namespace lossgrid
