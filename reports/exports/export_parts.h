// SPDX-License-Identifier: Apache-2.0
// Parts that several exporters share: the verdict on a run, and unique names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/record/record_names.h"

namespace lossgrid {

/// Returns one line: "passed: 384 passed", "failed (correctness, exit code 10): 1 passed, 2
/// failed", "incomplete (ended in the middle of ID): 3 passed".
std::string verdict_line(const RunRecord& run);

/// Makes names unique: the second of the same name gets " #2" behind it. Consumers drop or mix up
/// entries with the same name.
class UniqueNames {
 public:
  std::string operator()(const std::string& name);

 private:
  std::map<std::string, int> seen_;
};

}  // namespace lossgrid
