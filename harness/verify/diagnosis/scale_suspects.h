// SPDX-License-Identifier: Apache-2.0
// Typical wrong factors of a loss or a gradient, each with the mistake that causes the factor:
// sizes of the grid and the batch, and their squares, products and quotients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Sizes of which factors are made.
struct TrialSizes {
  ScaleSizes scale;
  std::int64_t tp = 1;
  std::int64_t valid_tokens = 0;
  std::int64_t sequences = 0;
  double temperature = 1;
  std::int64_t rows = 0;         // true tokens, trained on or not
  std::int64_t padded_rows = 0;  // rows of all packs, padding included
  double logit_scale = 1;
  std::int64_t predicting_rows = 0;  // rows with a target, trained on or not
  std::int64_t mask_tokens = 0;      // tokens in the mask, also tokens that are no targets
  std::int64_t longest = 0;          // length of the longest sequence
};

struct ScaleSuspect {
  std::string name;  // "cp", "dp*n_mb", "1/tp", "valid_tokens/rows"
  double value = 1;
  std::string mistake;  // cause of the factor, as a question; may be empty
  // Scale that an implementation may declare, if has_word.
  ScaleFactor factor = {};
  bool has_word = false;
  int order = 0;  // simpler suspects first
};

/// Returns all suspects whose value is not 1, the simplest first.
std::vector<ScaleSuspect> scale_suspects(const TrialSizes& sizes);

/// Returns the suspects whose value is within 1e-3 of |factor|, relative; no suspect if |factor| is
/// within 1e-3 of 1.
std::vector<ScaleSuspect> scale_suspects(double factor, const TrialSizes& sizes);

/// Returns the first of `suspects` and the following suspects that are equally simple.
std::vector<ScaleSuspect> simplest(std::vector<ScaleSuspect> suspects);

}  // namespace lossgrid
