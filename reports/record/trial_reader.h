// SPDX-License-Identifier: Apache-2.0
// The way back of compact_report.h: trials of a report, or of the lines of a partial file, in
// either form. Internal to the readers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/record/json_fields.h"
#include "reports/record/record.h"

namespace lossgrid {

/// `object`, which has `key`, with the members that it leaves out, and its own objects alike. Parts
/// that are not as they should be come back as they are.
ReportJson with_defaults(const std::string& key, const ReportJson& object,
                         const ReportJson& defaults);

/// Reads trials one after the other. Every list of "shared" is read once. Throws bad_input.
class TrialReader {
 public:
  /// `defaults`: those of the report; null of one that writes everything out.
  explicit TrialReader(ReportJson defaults);

  /// Adds to the lists that places of trials are in. Null adds nothing.
  void add_shared(const ReportJson& lists);

  TrialRecord read(const ReportJson& trial) const;

 private:
  /// A list of "shared", read.
  template <typename Value>
  struct Shared {
    const char* key;
    Value (*read)(const ReportJson&);
    std::vector<Value> values = {};
  };
  struct Case {
    std::string name;
    ReportJson parameters;
  };
  struct RankedMemory {
    std::vector<std::int64_t> ranks;
    PhaseMemoryRecord record;
  };

  static Case case_from(const ReportJson& json);
  static RankedMemory memory_from(const ReportJson& json);

  template <typename Value>
  void add(const ReportJson& lists, Shared<Value>& shared) const;
  template <typename Value>
  Value value_of(const Shared<Value>& shared, const ReportJson& said) const;
  template <typename Value>
  std::vector<Value> values_of(const Shared<Value>& shared, const ReportJson& trial) const;
  std::vector<PhaseMemoryRecord> memory_of(const ReportJson& trial) const;

  ReportJson defaults_;
  Shared<Case> cases_;
  Shared<std::map<std::string, std::optional<double>>> metrics_;
  Shared<std::map<std::string, std::string>> reductions_;
  Shared<std::map<std::string, double>> branches_;
  Shared<CheckRecord> checks_;
  Shared<InvariantRecord> invariants_;
  Shared<DeterminismRecord> determinism_;
  Shared<RankedMemory> memory_;
  Shared<CommunicationRecord> communication_;
  Shared<std::map<std::string, std::string>> fingerprints_;
};

}  // namespace lossgrid
