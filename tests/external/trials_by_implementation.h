// SPDX-License-Identifier: Apache-2.0
// Trials of a report by implementation.
#pragma once

#include <map>
#include <string>

#include "python.h"

namespace lossgrid {

/// Trials of one implementation: the first letters of their statuses, and the reasons of trials
/// that did not pass.
struct TrialsOf {
  std::string statuses;
  std::string reasons;
};

inline std::map<std::string, TrialsOf> trials_by_implementation(const std::string& report) {
  std::map<std::string, TrialsOf> all;
  for (const nlohmann::ordered_json& trial : records_of(report, "trials")) {
    TrialsOf& own = all[trial["implementation"]];
    own.statuses += trial["status"].get<std::string>()[0];
    if (trial["status"] != "passed") own.reasons += trial["reason"].get<std::string>() + "; ";
  }
  return all;
}

}  // namespace lossgrid
