// SPDX-License-Identifier: Apache-2.0
// Mutants of an external implementation: the user's function with one change, made by interception
// in the worker (python/PROTOCOL.md, Mutants). Each collective in turn is left out, done over
// another group or with another operation; gradients, labels, inputs and outputs are changed as in
// the known wrong implementations of the field.
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
  // Sentence for a surviving mutant, "all_reduce sum of 4 bytes over tp can be left out: nothing
  // changes"; empty if survival shows a gap of the suite and not a useless call.
  std::string if_it_survives;
};

/// Returns the name of the control of a loaded implementation, "mine/unchanged": the function run
/// in the same way as a mutant, without a change. A trial that the control fails proves nothing
/// about a mutant.
std::string control_name(const std::string& name);

/// Returns the change of a control, in the form of the protocol.
nlohmann::json no_change();

/// Returns the change, in the form of the protocol, of a mutant such as "forward-1-skip", or of the
/// control "unchanged". Throws bad_input for an unknown name.
nlohmann::json mutant_change(const std::string& mutant);

/// Returns all mutants of `declaration`; mutants of collectives are made from its learned calls.
std::vector<UserMutant> user_mutants(const ExternalDeclaration& declaration,
                                     const LearnedCalls& learned);

}  // namespace lossgrid
