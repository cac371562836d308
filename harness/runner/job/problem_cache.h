// SPDX-License-Identifier: Apache-2.0
// `ProblemCache`: problems with the truth of their rows, by case, for every grid and
// implementation. Keeps its entries: O(T) for a case. Logits are never kept; an entry with large
// hidden states and weights is dropped when the next case is made.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "harness/core/skip_reason.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// A truth of a problem and what it was made for.
struct RecentTruth {
  std::vector<std::int64_t> groups;  // of the problem
  std::int64_t group_count = 0;
  int serial_adds = 0;
  DeclaredRowRoundings declared;
  std::shared_ptr<const Truth> truth;
};

struct PreparedProblem {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Objective> objective;
  std::vector<RowTruth> rows;                 // [T]
  std::optional<SkipReason> memory_shortage;  // it cannot be prepared here; all else is empty
  // The last one; the last few of a small problem.
  std::shared_ptr<std::deque<RecentTruth>> truths = std::make_shared<std::deque<RecentTruth>>();
};

/// Makes objective and rows of a problem, on the threads of the process. Inputs of the objective
/// are drawn for a case and required of a bundle. Throws bad_input when the problem breaks a rule
/// of its objective.
PreparedProblem prepare(Problem problem);

/// Returns the truth for implementations with these declared roundings (make_truth). `problem` is
/// the prepared one with the groups and the padding of a trial. It can take as long as a trial, so
/// trials that need the same one after the other share it; those of a small problem also with a few
/// others between them, such as the trials of other TP sizes. From one thread at a time.
std::shared_ptr<const Truth> truth_of(const PreparedProblem& prepared, const Problem& problem,
                                      int serial_adds, const DeclaredRowRoundings& declared);

class ProblemCache {
 public:
  /// Returns the entry of a case; makes it first if necessary. Valid until another case is asked
  /// for.
  const PreparedProblem& get(const CaseSpec& spec);

 private:
  std::map<std::string, PreparedProblem> entries_;  // by case text
};

}  // namespace lossgrid
