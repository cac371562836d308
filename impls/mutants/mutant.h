// SPDX-License-Identifier: Apache-2.0
// A mutant is a right strategy with one step, the batch that it is given, its objective or its plan
// replaced by a wrong one; a control is a right strategy with one of them replaced by another right
// one. They are registered beside the real implementations under "mutant/..." and "control/...",
// never among them.
#pragma once

#include <memory>
#include <string>

#include "impls/strategy.h"

namespace lossgrid {

/// The steps of the strategy stay.
inline void keep_steps(Steps&) {}

/// One mutant: what is wrong in a line, and the strategy that it is made of. `lossgrid list
/// mutants` prints all of them. An id M1 .. M59 numbers a kind of mistake; several mutants may
/// share one.
struct MutantOf {
  const char* catalogue_id;  // "M4", "" when it has none
  const char* name;
  const char* what;
  const char* strategy;
  void (*change)(Steps&);
  ImplementationOptions options = {};
  /// Changes what the strategy makes of its batch.
  void (*batch)(PackedBatch&) = nullptr;
  /// Another objective in place of the one of `spec`; null when it has nothing to change there:
  /// then the mutant does not run.
  std::unique_ptr<Objective> (*objective)(const ObjectiveSpec& spec) = nullptr;
  /// Puts a plan around the strategy's own.
  std::unique_ptr<LossPlan> (*plan)(const LossProblem& problem, RankContext context,
                                    std::unique_ptr<LossPlan> own) = nullptr;
};

struct RegisteredMutant {
  explicit RegisteredMutant(const MutantOf& mutant);
};

struct RegisteredControl {
  explicit RegisteredControl(const MutantOf& control);
};

}  // namespace lossgrid
