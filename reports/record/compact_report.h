// SPDX-License-Identifier: Apache-2.0
// The compact form of a report's trials, in which everything stands once. A member that an object
// leaves out is in "defaults" of the report, under the key of the object. What several trials have
// in common is in "shared", and trials hold its place there. A record of memory that is the same on
// several ranks has "ranks". Any part may also be written out in full, as trial_to_json does;
// trial_reader.h reads both.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record/record.h"

namespace lossgrid {

/// "defaults" of a report: by key of an object, the members that it may leave out, with what they
/// then are.
const nlohmann::ordered_json& report_defaults();

/// Members of a trial that are objects, or lists of objects, of which "shared" may have a list.
const std::vector<std::string>& shared_keys();

/// Makes trials compact, one after the other.
class CompactTrials {
 public:
  /// The trial with numbers for all that may be shared, also for what no other trial has so far.
  nlohmann::ordered_json add(const TrialRecord& trial);

  /// By key, what came into the lists of "shared" since the last call; an empty object for nothing.
  nlohmann::ordered_json take_new();

 private:
  std::size_t place_of(const std::string& key, nlohmann::ordered_json value);

  std::map<std::string, std::unordered_map<std::string, std::size_t>> places_;  // by key and text
  nlohmann::ordered_json new_ = nlohmann::ordered_json::object();
};

/// The whole report: run_to_json with compact trials, "defaults" and "shared". What only one trial
/// has stands in that trial.
nlohmann::ordered_json compact_report(const RunRecord& run);

/// Text of a report, as compact_report makes it: members of objects below each other, every element
/// of a list on a line of its own.
std::string report_text(const nlohmann::ordered_json& report);

}  // namespace lossgrid
