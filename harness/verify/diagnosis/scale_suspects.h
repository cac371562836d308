// SPDX-License-Identifier: Apache-2.0
// Typical wrong factors of a loss or a gradient: sizes of the grid and the batch, their squares,
// products and quotients, each with the mistake that causes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// The sizes that factors are made of.
struct TrialSizes {
  ScaleSizes scale;
  std::int64_t tp = 1;
  std::int64_t valid_tokens = 0;
  std::int64_t sequences = 0;
  double temperature = 1;
  std::int64_t rows = 0;         // true tokens, trained on or not
  std::int64_t padded_rows = 0;  // of all packs, padding included
  double logit_scale = 1;
  std::int64_t predicting_rows = 0;  // rows with a target, trained on or not
  std::int64_t mask_tokens = 0;      // tokens of the mask, first ones that are no target included
  std::int64_t longest = 0;          // length of the longest sequence
};

struct ScaleSuspect {
  std::string name;  // "cp", "dp*n_mb", "1/tp", "valid_tokens/rows"
  double value = 1;
  std::string mistake;  // cause of the factor, as a question; may be empty
  // The scale that an implementation may declare; without a word nothing declares it.
  ScaleFactor factor = {};
  bool has_word = false;
  int order = 0;  // simpler ones first
};

/// Returns all suspects whose value is not 1, the simplest first.
std::vector<ScaleSuspect> scale_suspects(const TrialSizes& sizes);

/// Returns those whose value is within 1e-3 of |factor|, relative; none if that is within 1e-3
/// of 1.
std::vector<ScaleSuspect> scale_suspects(double factor, const TrialSizes& sizes);

/// Returns the first of `suspects` and those behind it that are as simple.
std::vector<ScaleSuspect> simplest(std::vector<ScaleSuspect> suspects);

}  // namespace lossgrid
