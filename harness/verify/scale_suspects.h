// SPDX-License-Identifier: Apache-2.0
// Factors by which a loss or a gradient is typically wrong: products of the sizes of the grid and
// the batch, each with the mistake that makes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Everything that a factor may be made of.
struct TrialSizes {
  ScaleSizes scale;
  std::int64_t tp = 1;
  std::int64_t valid_tokens = 0;
  std::int64_t sequences = 0;
  double temperature = 1;
};

struct ScaleSuspect {
  std::string name;  // "cp", "dp*n_mb", "1/tp"
  double value = 1;
  std::string mistake;  // what would multiply by it, as a question; empty for products of several
  std::string scale_word;  // what an implementation declares as its scale; empty: it cannot
};

/// The suspects within 1e-3 of the size of `factor`, of those the simplest. None within 1e-3 of 1.
std::vector<ScaleSuspect> scale_suspects(double factor, const TrialSizes& sizes);

}  // namespace lossgrid
