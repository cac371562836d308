// SPDX-License-Identifier: Apache-2.0
// `Alternative`: another computation of a batch than that of its truth, as a mistake or another
// definition makes it. Results that are wrong and fit it within the bounds of a truth show the
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
  // Only results that fit in all are explained: loss and gradient follow from it alike.
  bool is_whole = false;
  Problem problem;
  std::shared_ptr<const Objective> objective;
  // d hidden is that of these ids alone; of a problem from hidden states without a transform.
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

/// Results of a trial in the unsharded layout, and all that its bounds depend on.
struct TrialResults {
  const BundleResults& got;
  int serial_adds = 0;
  DeclaredRowRoundings rows = {};
  DeclaredRoundings declared = {};
  bool has_hidden = true;  // d hidden is one of them
};

/// Returns the parts that are beyond their bounds.
ResultParts wrong_parts(const Problem& problem, const Truth& truth, const TrialResults& results);

/// Returns the same for the truth of an alternative. Without a truth all parts are wrong.
ResultParts wrong_parts(const Alternative& alternative, const TrialResults& results);

}  // namespace lossgrid
