// SPDX-License-Identifier: Apache-2.0
// Compact form of a report's trials, in which everything stands once. A member that an object
// leaves out is in "defaults" of the report, under the key of the object. Parts that several trials
// have in common are in "shared", and trials hold their place there. A record of memory that is the
// same on several ranks has "ranks". Any part may also stand in its trial in full, as trial_to_json
// writes it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record/record.h"

namespace lossgrid {

/// Compact forms of trials, one after the other.
class CompactTrials {
 public:
  /// Returns the trial with numbers for all parts that may be shared, also for new ones.
  nlohmann::ordered_json add(const TrialRecord& trial);

  /// Returns, by key, the parts that are new in "shared" since the last call; may be an empty
  /// object.
  nlohmann::ordered_json take_new();

 private:
  std::size_t place_of(const std::string& key, nlohmann::ordered_json value);

  std::map<std::string, std::unordered_map<std::string, std::size_t>> places_;  // by key and text
  nlohmann::ordered_json new_ = nlohmann::ordered_json::object();
};

/// Returns the whole report: run_to_json with compact trials, "defaults" and "shared". A part that
/// only one trial has stands in that trial.
nlohmann::ordered_json compact_report(const RunRecord& run);

/// Text of a report, as compact_report makes it: members of objects below each other, every element
/// of a list on a line of its own.
std::string report_text(const nlohmann::ordered_json& report);

}  // namespace lossgrid
