// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/failure_groups.h"

#include <algorithm>

#include "harness/hunt/setting.h"

namespace lossgrid {
namespace {

std::set<std::string> labels_of(const FailingTrial& trial) {
  std::set<std::string> labels;
  for (const Setting& setting : settings_of(trial.spec, trial.grids.back())) {
    if (setting.key != "mask") labels.insert(setting.label);  // a small trial masks nothing
  }
  return labels;
}

std::string base_name(const std::string& implementation) {
  return implementation.substr(0, implementation.find(':'));
}

}  // namespace

void FailureGroups::add_trial(Group& group, const FailingTrial& trial) {
  ++group.record.trials;
  std::vector<std::string>& names = group.record.implementations;
  const std::string name = base_name(trial.implementation);
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool FailureGroups::count(const FailingTrial& trial) {
  const std::set<std::string> labels = labels_of(trial);
  for (Group& group : groups_) {
    const bool has_all =
        std::includes(labels.begin(), labels.end(), group.settings.begin(), group.settings.end());
    const auto& names = group.record.implementations;
    const bool is_known =
        std::find(names.begin(), names.end(), base_name(trial.implementation)) != names.end();
    if (group.record.check != trial.check || !has_all || !is_known) continue;
    add_trial(group, trial);
    return true;
  }
  return false;
}

void FailureGroups::add(const FailingTrial& trial, const FailingTrial& smallest,
                        FoundRecord found) {
  const std::set<std::string> settings = labels_of(smallest);
  auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& one) {
    return one.settings == settings && one.record.check == trial.check;
  });
  if (group == groups_.end()) {
    found.check = trial.check;
    groups_.push_back({settings, std::move(found)});
    group = groups_.end() - 1;
  }
  add_trial(*group, trial);
}

std::vector<FoundRecord> FailureGroups::records() const {
  std::vector<FoundRecord> records;
  for (const Group& group : groups_) records.push_back(group.record);
  return records;
}

}  // namespace lossgrid
