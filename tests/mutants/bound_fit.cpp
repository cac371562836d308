// SPDX-License-Identifier: Apache-2.0
#include "bound_fit.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/runner/run.h"

namespace lossgrid {

std::map<FitKey, std::map<std::string, double>> fit_bounds(int seeds) {
  Suite suite;
  suite.grids = {{1, 1}, {4, 1}, {2, 2}};
  for (const auto kind : {ImplementationKind::real, ImplementationKind::control}) {
    for (const ImplementationEntry* entry : implementations(kind)) {
      suite.implementations.push_back(entry->name);
    }
  }
  std::map<FitKey, std::map<std::string, double>> worst;
  for (const char* values : {"normal", "flat", "peaked", "all_negative", "offset", "overflow",
                             "ties", "masked_vocab", "edge_mass"}) {
    for (const char* dtype : {"f32", "bf16", "f64"}) {
      for (int seed = 1; seed <= seeds; ++seed) {
        CaseSpec spec = parse_case(fmt::format(
            "lens=7+9 mask=all vocab=2003 values={} dtype={} seed={}", values, dtype, 1000 + seed));
        suite.cases = {spec};
        ProblemCache problems;
        run_suites({suite}, RunOptions(), problems, [&](const TrialRecord& trial) {
          auto& ratios = worst[{fmt::format("{} {}", values, dtype), trial.implementation}];
          for (const CheckRecord& check : trial.checks) {
            ratios[check.name] = std::max(ratios[check.name], check.ratio);
          }
          return true;
        });
      }
    }
  }
  return worst;
}

}  // namespace lossgrid
