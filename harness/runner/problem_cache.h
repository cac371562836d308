// SPDX-License-Identifier: Apache-2.0
// Problems with the truth of their rows, by case: it serves every grid and implementation. Keeps
// what it made; a case's entry is O(T), logits are never kept.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "harness/verify/truth.h"

namespace lossgrid {

struct PreparedProblem {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Objective> objective;
  std::vector<RowTruth> rows;  // [T]
  std::string why_too_big;     // why it cannot be prepared here; then all else is empty
};

/// Objective and rows of a problem (on all cores). What the objective reads is drawn for a case and
/// required of a bundle. Throws bad_input when the problem breaks a rule of its objective.
PreparedProblem prepare(Problem problem);

class ProblemCache {
 public:
  const PreparedProblem& get(const CaseSpec& spec);

 private:
  std::map<std::string, PreparedProblem> entries_;  // by case text
};

}  // namespace lossgrid
