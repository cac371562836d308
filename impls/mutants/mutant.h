// SPDX-License-Identifier: Apache-2.0
// Mutants and controls. A mutant is a right strategy with one step, the batch or the map of logits
// that it is given, its objective or its plan replaced by a wrong one; a control is a right
// strategy with one of them replaced by another right one. They are registered beside the real
// implementations under "mutant/..." and "control/...", never among them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "impls/toolkit/strategy.h"

namespace lossgrid {

/// Leaves the steps of the strategy as they are.
inline void keep_steps(Steps&) {}

/// One mutant or control: the strategy that it is made of, and the part of it that is replaced.
/// `lossgrid list mutants` prints all of them; `lossgrid list mutants --markdown` prints the
/// catalogue of docs/mutants.md.
struct MutantOf {
  const char* catalogue_id = "";  // kind of mistake, "M4"; several mutants may share one; "": none
  std::string name;
  std::string what;  // the mistake in one line
  const char* strategy;
  void (*change)(Steps&) = keep_steps;
  ImplementationOptions options = {};
  /// Changes the copy of the batch that the strategy gets.
  void (*batch)(PackedBatch&) = nullptr;
  /// Changes the map of logits that the strategy gets; where it leaves it, the mutant does not run.
  void (*transform)(LogitTransform&) = nullptr;
  /// Changes the teacher, of a problem that has one, that the strategy gets; where it leaves it,
  /// the mutant does not run.
  void (*teacher)(Teacher&, const LossProblem& original) = nullptr;
  /// Returns an objective in place of the one of `spec`; null if there is nothing to change in it:
  /// then the mutant does not run.
  std::function<std::unique_ptr<Objective>(const ObjectiveSpec& spec)> objective = {};
  /// False for a problem in which there is nothing to change: then the mutant does not run.
  bool (*runs_on)(const LossProblem& problem) = nullptr;
  /// Wraps the strategy's own plan.
  std::unique_ptr<LossPlan> (*plan)(const LossProblem& problem, RankContext context,
                                    std::unique_ptr<LossPlan> own) = nullptr;
  /// Returns the group over CP that the strategy gets in the place of its own. Collective over the
  /// stage.
  std::unique_ptr<Communicator> (*cp_group)(const LossProblem& problem,
                                            RankContext context) = nullptr;
  /// Changes what the strategy declares.
  void (*declare)(ImplementationTraits&) = nullptr;
  bool declares_grad_logits = false;  // to be in the dtype of the problem, whatever it is
  /// Returns a reason to refuse a problem, beside those of the strategy.
  std::optional<SkipReason> (*unsupported)(const LossProblem& problem) = nullptr;
  const char* seen_in = "";  // framework and issue where the mistake happened; "": unknown
  // Check, invariant, verdict or cost that rejects the mutant in suites ci, linear and layouts; no
  // other one counts.
  const char* rejected_by = "";
  std::optional<Backend> backend = {};  // the only one that shows the mistake
};

/// Makes a `Plan` that wraps the strategy's own plan, for MutantOf::plan.
template <typename Plan>
std::unique_ptr<LossPlan> plan_around(const LossProblem& problem, RankContext context,
                                      std::unique_ptr<LossPlan> own) {
  return std::make_unique<Plan>(problem, context, std::move(own));
}

struct RegisteredMutant {
  explicit RegisteredMutant(const MutantOf& mutant);
};

struct RegisteredControl {
  explicit RegisteredControl(const MutantOf& control);
};

}  // namespace lossgrid
