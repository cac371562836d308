// SPDX-License-Identifier: Apache-2.0
// Draws of cases and of grids. Keys and their values come from the table of keys (CaseKey::draws),
// what goes together from the rules of cases (case_rules.h) and of objectives: a case that is
// refused is the exception.
#pragma once

#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/hunt/dice.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Limits of drawn cases.
struct DrawLimits {
  std::vector<std::string> objectives;  // kinds; empty: all
  int max_ranks = 8;
  bool from_logits = true;  // cases that start from logits
  bool from_hidden = true;  // cases that start from hidden states; at least one of the two
};

/// Returns a case of at most 200 tokens.
CaseSpec draw_case(Dice& dice, const DrawLimits& limits);

/// Returns a grid of at most limits.max_ranks ranks with no more of them over TP than the case has
/// ids.
Grid draw_grid(Dice& dice, const CaseSpec& spec, const DrawLimits& limits);

}  // namespace lossgrid
