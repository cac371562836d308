// SPDX-License-Identifier: Apache-2.0
// Share of each bound that the valid implementations use: the largest ratio (error / bound) of
// every check over value regimes and seeds. It justifies the constants of
// harness/verify/truth/bounds.h, linear_bounds.h and of the bias checks: fit_bounds prints it, and
// a test holds it at or below 1.
#pragma once

#include <map>
#include <string>

namespace lossgrid {

struct FitKey {
  std::string values;  // regime and dtype
  std::string implementation;
  friend auto operator<=>(const FitKey&, const FitKey&) = default;
};

/// Largest ratio by check name.
using FittedRatios = std::map<FitKey, std::map<std::string, double>>;

/// Runs `seeds` seeds on the grids tp1cp1, tp4cp1 and tp2cp2, for all real, control and loaded
/// implementations that start from logits.
FittedRatios fit_bounds(int seeds);

/// Runs the same with losses that depend on row terms.
FittedRatios fit_term_bounds(int seeds);

/// Runs those that start from hidden states, on tp1cp1, tp4cp1sp and tp2cp2; and 1 to 1024 chunks
/// of a pack of 1024 rows.
FittedRatios fit_linear_bounds(int seeds);

}  // namespace lossgrid
