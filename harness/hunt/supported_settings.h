// SPDX-License-Identifier: Apache-2.0
// `SupportedSettings`: settings that the hunted implementations support, as far as cases have
// shown: a trial may be refused for what only its data show.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/hunt/setting.h"

namespace lossgrid {

class SupportedSettings {
 public:
  /// Notes a case with these settings; `ran`: a trial of it ran.
  void learn(const std::vector<Setting>& settings, bool ran) {
    for (const Setting& setting : settings) {
      Outcomes& outcomes = outcomes_[setting.label];
      ++(ran ? outcomes.ran : outcomes.refused);
    }
  }

  /// True if a setting is in several cases that did not run, and in none that ran.
  bool refuses_any(const std::vector<Setting>& settings) const {
    for (const Setting& setting : settings) {
      const auto known = outcomes_.find(setting.label);
      if (known == outcomes_.end()) continue;
      if (known->second.ran == 0 && known->second.refused >= kEnough) return true;
    }
    return false;
  }

 private:
  static constexpr std::int64_t kEnough = 4;

  struct Outcomes {
    std::int64_t ran = 0;
    std::int64_t refused = 0;
  };

  std::map<std::string, Outcomes> outcomes_;  // by label
};

}  // namespace lossgrid
