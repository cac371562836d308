// SPDX-License-Identifier: Apache-2.0
// Mutants of an external implementation: the user's function with one thing done in another way,
// by interception in the worker (python/PROTOCOL.md, Mutants). Each collective in turn is left out,
// done over another group or with another operation; gradients, labels, inputs and outputs are
// changed as the known wrong implementations of the field change them.
#pragma once

#include <string>
#include <vector>

#include "harness/external/declaration.h"
#include "harness/external/learned_calls.h"

namespace lossgrid {

struct UserMutant {
  std::string name;       // "mine/forward-1-skip"
  std::string what;       // "collective 1 of the forward, all_reduce max of 48 bytes over tp, ..."
  nlohmann::json change;  // of the protocol
  // "all_reduce sum of 4 bytes over tp can be left out: nothing changes"; empty where the survival
  // of the mutant shows a gap of the suite and not a call without a use.
  std::string if_it_survives;
};

/// The change of "forward-1-skip" and the like, of the protocol. Throws bad_input where there is no
/// such mutant.
nlohmann::json change_of(const std::string& mutant);

/// From the calls that were learned of it.
std::vector<UserMutant> user_mutants(const ExternalDeclaration& declaration,
                                     const LearnedCalls& learned);

}  // namespace lossgrid
