// SPDX-License-Identifier: Apache-2.0
// `Alternative`: a computation of a batch that differs from its truth by a mistake or another
// definition. Wrong results that agree with the alternative within the bounds of a truth show the
// cause.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/problem/bundle/bundle.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

struct Alternative {
  std::string cause;  // "if masked rows took part"; the same in every size of a case
  // True: explains only results of which all parts fit, because both loss and gradient follow from
  // the alternative.
  bool is_whole = false;
  Problem problem;
  std::shared_ptr<const Objective> objective;
  // Ids that alone contribute to d hidden, in problems from hidden states without a transform.
  std::optional<VocabShard> hidden_of = std::nullopt;
};

/// Parts of the results of a trial.
struct ResultParts {
  bool loss = false;
  bool logprobs = false;
  bool gradients = false;

  bool any() const { return loss || logprobs || gradients; }
  bool operator==(const ResultParts&) const = default;
};

/// Results of a trial in the unsharded layout, and everything that their bounds depend on.
struct TrialResults {
  const BundleResults& got;
  int serial_adds = 0;
  DeclaredRowRoundings rows = {};
  DeclaredRoundings declared = {};
  bool has_hidden = true;  // d hidden is among the results
};

/// Returns the parts that are beyond their bounds.
ResultParts wrong_parts(const Problem& problem, const Truth& truth, const TrialResults& results);

/// Returns the parts that are beyond the bounds of an alternative's truth: all parts if it has no
/// truth.
ResultParts wrong_parts(const Alternative& alternative, const TrialResults& results);

}  // namespace lossgrid
