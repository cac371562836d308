// SPDX-License-Identifier: Apache-2.0
// `ExternalDeclaration`: the arguments of the Python decorator of an external implementation
// (python/PROTOCOL.md, DECLARATION), with every convention by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/loss/loss_implementation.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

struct ExternalDeclaration {  // NOLINT(bugprone-exception-escape): JSON moves without throwing
  std::string name;
  std::string summary;
  std::string file;
  InputKind inputs = InputKind::logits;
  bool is_engine = false;
  bool returns_logprobs = true;  // or nll
  bool returns_entropy = false;
  bool returns_loss = false;
  LogprobScope rows = LogprobScope::shard;
  bool gradient_summed_over_cp = false;  // by the backward of its own gather over CP
  ScaleFactor scale;                     // factor of its loss and its gradient
  bool overwrites_logits = false;
  Padding padding;
  bool rounds_loss = false;  // to the dtype of the inputs, as the next three
  bool rounds_logits = false;
  bool rounds_grad_logits = false;
  bool rounds_grad_weight = false;
  bool has_chunks =
      false;  // has a function that returns the chunks of rows of the weight's gradient
  bool has_supports = false;
  bool has_cost = false;
  std::map<std::string, std::string> options;  // name -> "int", "float", "bool" or "str"
  // Values of the options that take no others, the default first.
  std::map<std::string, std::vector<nlohmann::json>> offers;
  nlohmann::json change;  // the change of a mutant (PROTOCOL.md, Mutants); else null
};

/// Reads a declaration. Throws bad_input for a value that is not of the protocol.
ExternalDeclaration declaration_from(const nlohmann::json& json);

}  // namespace lossgrid
