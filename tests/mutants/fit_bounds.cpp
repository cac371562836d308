// SPDX-License-Identifier: Apache-2.0
// Prints what the valid implementations use of each bound: fit_bounds [SEEDS]. A constant that is
// too small shows as a ratio above 1; one that is needlessly large shows as a small largest ratio.
#include <cstdlib>

#include <fmt/core.h>

#include "bound_fit.h"

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 8;
  const auto worst = lossgrid::fit_bounds(seeds);
  const char* const checks[] = {"loss", "logprobs", "entropy", "grad_logits", "grad_logits_bias"};
  fmt::print("{:<20} {:<28} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "values", "implementation", "loss",
             "logprobs", "entropy", "grad", "bias");
  std::map<std::string, double> largest;
  for (const auto& [key, ratios] : worst) {
    fmt::print("{:<20} {:<28}", key.values, key.implementation);
    for (const char* check : checks) {
      const auto ratio = ratios.find(check);
      const double value = ratio == ratios.end() ? 0.0 : ratio->second;
      largest[check] = std::max(largest[check], value);
      fmt::print(" {:8.3f}", value);
    }
    fmt::print("\n");
  }
  fmt::print("{:<49}", "largest");
  for (const char* check : checks) fmt::print(" {:8.3f}", largest[check]);
  fmt::print("\n");
}
