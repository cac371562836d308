// SPDX-License-Identifier: Apache-2.0
// Problems with their truths, by case: one truth serves every grid and implementation. Keeps what
// it made; a case's entry is O(T), logits are never kept.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "harness/verify/truth.h"

namespace lossgrid {

struct PreparedProblem {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Objective> objective;
  std::shared_ptr<const Truth> truth;  // null when the problem has no logits or is too big
  std::string why_too_big;             // then, and else empty: why it cannot be prepared here
};

/// Objective and truth of a problem (on all cores).
PreparedProblem prepare(Problem problem);

class ProblemCache {
 public:
  const PreparedProblem& get(const CaseSpec& spec);

 private:
  std::map<std::string, PreparedProblem> entries_;  // by case text
};

}  // namespace lossgrid
