// SPDX-License-Identifier: Apache-2.0
// Problems with the truth of their rows, by case: it serves every grid and implementation. Keeps
// what it made; a case's entry is O(T), logits are never kept, and what starts from large hidden
// states and weights only until the next case is made.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "harness/verify/truth.h"

namespace lossgrid {

/// The truth that was made last.
struct LastTruth {
  int serial_adds = 0;
  bool rounds_logits = false;
  std::shared_ptr<const Truth> truth;
};

struct PreparedProblem {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Objective> objective;
  std::vector<RowTruth> rows;  // [T]
  std::string why_too_big;     // why it cannot be prepared here; then all else is empty
  std::shared_ptr<LastTruth> last_truth = std::make_shared<LastTruth>();
};

/// Objective and rows of a problem, on the threads of the process. What the objective reads is
/// drawn for a case and required of a bundle. Throws bad_input when the problem breaks a rule of
/// its objective.
PreparedProblem prepare(Problem problem);

/// The truth for implementations with these declared roundings (make_truth). The
/// gradients of an LM head can take as long as a trial, so trials that ask for the same one after
/// the other share it. From one thread at a time.
std::shared_ptr<const Truth> truth_of(const PreparedProblem& prepared, int serial_adds,
                                      bool rounds_logits);

class ProblemCache {
 public:
  /// Valid until another case is asked for.
  const PreparedProblem& get(const CaseSpec& spec);

 private:
  std::map<std::string, PreparedProblem> entries_;  // by case text
};

}  // namespace lossgrid
