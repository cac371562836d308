// SPDX-License-Identifier: Apache-2.0
// `FailureGroups`: failing trials by cause. A trial has the cause of a group if the same check
// fails and it has all settings of the group's smallest trial.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/hunt/failing_trial.h"
#include "reports/record/hunt_record.h"

namespace lossgrid {

class FailureGroups {
 public:
  /// Counts a failing trial in the group that has its cause; false if none has.
  bool count(const FailingTrial& trial);

  /// Adds a failing trial whose smallest one is `smallest`: to the group with the same smallest
  /// settings, or as a new one.
  void add(const FailingTrial& trial, const FailingTrial& smallest, FoundRecord found);

  std::size_t size() const { return groups_.size(); }
  std::vector<FoundRecord> records() const;

 private:
  struct Group {
    std::set<std::string> settings;  // labels
    FoundRecord record;
  };

  static void add_trial(Group& group, const FailingTrial& trial);

  std::vector<Group> groups_;
};

}  // namespace lossgrid
