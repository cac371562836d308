// SPDX-License-Identifier: Apache-2.0
// One of the checks of an output, by its name: there may be others beside it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/verify/checks/check.h"

namespace lossgrid {

inline bool has_check(const std::vector<Check>& checks, const std::string& name) {
  return std::any_of(checks.begin(), checks.end(),
                     [&](const Check& check) { return check.name() == name; });
}

/// Returns the check of this name; without one the test fails.
inline Check check_named(const std::vector<Check>& checks, const std::string& name) {
  for (const Check& check : checks) {
    if (check.name() == name) return check;
  }
  ADD_FAILURE() << "no check " << name;
  return Check();
}

}  // namespace lossgrid
