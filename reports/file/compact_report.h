// SPDX-License-Identifier: Apache-2.0
// Compact form of a report's trials, in which everything stands once. A member that an object
// leaves out is in "defaults" of the report, under the key of the object. Parts that several trials
// have in common are in "shared", and trials hold their place there. A record of memory that is the
// same on several ranks has "ranks". Any part may also stand in its trial in full, as trial_to_json
// writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "reports/record/record.h"

namespace lossgrid {

/// Compact forms of trials, one after the other. Memory does not grow with them: a part that many
/// thousands of others have followed is forgotten, and is a new one if it comes again.
class CompactTrials {
 public:
  /// Returns the trial with numbers for all parts that may be shared, also for new ones.
  nlohmann::ordered_json add(const TrialRecord& trial);

  /// Returns, by key, the parts that are new in "shared" since the last call; may be an empty
  /// object.
  nlohmann::ordered_json take_new();

 private:
  using Digest = std::pair<std::uint64_t, std::uint64_t>;  // of a part's key and text
  struct DigestHash {
    std::size_t operator()(const Digest& digest) const { return digest.first; }
  };
  using Places = std::unordered_map<Digest, std::size_t, DigestHash>;

  std::size_t place_of(const std::string& key, nlohmann::ordered_json value);

  Places recent_;
  Places older_;                             // forgotten when recent_ is full and takes its place
  std::map<std::string, std::size_t> next_;  // place, by key
  nlohmann::ordered_json new_ = nlohmann::ordered_json::object();
};

using TextSink = std::function<void(std::string_view)>;

/// Writes the whole report: run_to_json with compact trials, "defaults" and "shared", members of
/// objects below each other and every element of a list on a line of its own. A part that only one
/// trial has stands in that trial. Trials are written one by one.
void write_compact_report(const RunRecord& run, const TextSink& sink);

/// The same as text, and read back.
std::string compact_report_text(const RunRecord& run);
nlohmann::ordered_json compact_report(const RunRecord& run);

/// Text of a report, in the same form.
std::string report_text(const nlohmann::ordered_json& report);

}  // namespace lossgrid
