// SPDX-License-Identifier: Apache-2.0
// Typical wrong factors of a loss or a gradient: products of the sizes of the grid and the batch,
// each with the mistake that causes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// The sizes whose products are factors.
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
  std::string mistake;     // cause of the factor, as a question; empty for products of several
  std::string scale_word;  // scale that an implementation may declare; empty: none
};

/// Returns the simplest of the suspects whose value is within 1e-3 of |factor|, relative; none if
/// that is within 1e-3 of 1.
std::vector<ScaleSuspect> scale_suspects(double factor, const TrialSizes& sizes);

}  // namespace lossgrid
