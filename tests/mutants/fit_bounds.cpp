// SPDX-License-Identifier: Apache-2.0
// Prints the share of each bound that valid implementations use: fit_bounds [SEEDS [PYTHON
// FILE...]], with those of Python files beside the built-in ones. A constant that is too small
// shows as a ratio above 1; one that is needlessly large shows as a small largest ratio.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bound_fit.h"
#include "harness/external/external_implementation.h"

namespace {

void print(const lossgrid::FittedRatios& worst, const std::vector<std::string>& checks) {
  fmt::print("{:<20} {:<40}", "values", "implementation");
  for (const std::string& check : checks) fmt::print(" {:>16}", check);
  fmt::print("\n");
  std::map<std::string, double> largest;
  for (const auto& [key, ratios] : worst) {
    fmt::print("{:<20} {:<40}", key.values, key.implementation);
    for (const std::string& check : checks) {
      const auto ratio = ratios.find(check);
      const double value = ratio == ratios.end() ? 0.0 : ratio->second;
      largest[check] = std::max(largest[check], value);
      fmt::print(" {:16.3f}", value);
    }
    fmt::print("\n");
  }
  fmt::print("{:<61}", "largest");
  for (const std::string& check : checks) fmt::print(" {:16.3f}", largest[check]);
  fmt::print("\n\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 8;
  if (argc > 2) lossgrid::load_implementations({{argv + 3, argv + argc}, argv[2], ""});
  print(lossgrid::fit_bounds(seeds),
        {"loss", "logprobs", "entropy", "grad_logits", "grad_logits_bias"});
  print(lossgrid::fit_term_bounds(seeds),
        {"loss", "logsumexp", "mean_logprob", "divergence", "grad_logits", "grad_logits_bias"});
  print(lossgrid::fit_linear_bounds(seeds),
        {"logprobs", "entropy", "vocab_max", "grad_hidden", "grad_hidden_l2", "grad_hidden_bias",
         "grad_weight", "grad_weight_l2", "grad_weight_bias"});
}
