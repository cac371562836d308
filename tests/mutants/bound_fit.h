// SPDX-License-Identifier: Apache-2.0
// How much of each bound the valid implementations use: the largest ratio (error / bound) of every
// check over value regimes and seeds. The constants of harness/verify/bounds.h and of the bias
// check are judged by this table: fit_bounds prints it, and a test holds it at or below 1.
#pragma once

#include <map>
#include <string>

namespace lossgrid {

struct FitKey {
  std::string values;  // regime and dtype
  std::string implementation;
  friend auto operator<=>(const FitKey&, const FitKey&) = default;
};

/// Largest ratio by check name, over `seeds` seeds and the grids tp1cp1, tp4cp1 and tp2cp2, for all
/// real implementations and controls.
std::map<FitKey, std::map<std::string, double>> fit_bounds(int seeds);

}  // namespace lossgrid
