// SPDX-License-Identifier: Apache-2.0
// The declaration of an external implementation: the arguments of its Python decorator
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
  bool gradient_summed_over_cp = false;  // what the backward of its own gather over CP does
  ScaleFactor scale;                     // a factor that its loss and its gradient carry
  bool overwrites_logits = false;
  Padding padding;
  bool rounds_loss = false;  // to the dtype of the inputs, as the next three
  bool rounds_logits = false;
  bool rounds_grad_logits = false;
  bool rounds_grad_weight = false;
  bool has_chunks = false;  // tells in how many chunks of rows the weight's gradient is made
  bool has_supports = false;
  bool has_cost = false;
  std::map<std::string, std::string> options;  // name -> "int", "float", "bool" or "str"
  // Of options that take no other: their values, the default first.
  std::map<std::string, std::vector<nlohmann::json>> offers;
  nlohmann::json change;  // of a mutant: what is done in another way (Mutants); else null
};

/// Throws bad_input for a value that is not of the protocol.
ExternalDeclaration declaration_from(const nlohmann::json& json);

}  // namespace lossgrid
