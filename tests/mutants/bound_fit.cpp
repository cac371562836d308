// SPDX-License-Identifier: Apache-2.0
#include "bound_fit.h"

#include <algorithm>
#include <string_view>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/runner/run.h"

namespace lossgrid {

namespace {

void run_and_keep_worst(Suite& suite, const CaseSpec& spec, FittedRatios& worst) {
  suite.cases = {spec};
  ProblemCache problems;
  run_suites({suite}, RunOptions(), problems, [&](const TrialRecord& trial) {
    if (trial.status == TrialStatus::skipped) return true;
    auto& ratios =
        worst[{fmt::format("{} {}", trial.case_parameters.at("values").get<std::string>(),
                           trial.case_parameters.at("dtype").get<std::string>()),
               trial.implementation}];
    for (const CheckRecord& check : trial.checks) {
      ratios[check.name] = std::max(ratios[check.name], check.ratio);
    }
    return true;
  });
}

/// Real and loaded implementations and controls whose inputs are of this kind, or of either.
std::vector<std::string> right_ones(InputKind inputs) {
  std::vector<std::string> names;
  for (const auto kind :
       {ImplementationKind::real, ImplementationKind::control, ImplementationKind::external}) {
    for (const ImplementationEntry* entry : implementations(kind)) {
      const InputKind own = make_implementation(entry->name)->describe().inputs;
      if (own == inputs || own == InputKind::either) names.push_back(entry->name);
    }
  }
  return names;
}

/// At -1e12 a float32 log-sum-exp keeps nothing of the sum: probabilities that are made of it add
/// up to the size of the vocabulary, so the control is wrong where float64 logits differ.
bool is_wrong_there(std::string_view implementation, std::string_view values,
                    std::string_view dtype) {
  return implementation == "control/saved_lse_gradient" && values == "far_offset" && dtype == "f64";
}

/// Adds the ratios of cases with these keys beside values, dtype and seed, in all regimes.
void fit_regimes(const std::string& keys, int seeds, FittedRatios& worst) {
  Suite suite;
  suite.grids = {{1, 1}, {4, 1}, {2, 2}};
  const std::vector<std::string> all = right_ones(InputKind::logits);
  for (const char* values :
       {"normal", "flat", "peaked", "all_negative", "offset", "overflow", "ties", "masked_vocab",
        "edge_mass", "vanishing", "denormal", "finite_mask", "late_max", "lowest_mask",
        "far_offset", "buried_target", "impossible_target"}) {
    for (const std::string_view dtype : {"f32", "bf16", "f64"}) {
      if (dtype == "f64" && values == std::string_view("denormal")) continue;  // refused
      // The sum of logits of which half are the lowest float32 is none.
      if (values == std::string_view("lowest_mask") && keys.find("smoothing") != keys.npos)
        continue;
      suite.implementations = all;
      std::erase_if(suite.implementations, [&](const std::string& implementation) {
        return is_wrong_there(implementation, values, dtype);
      });
      for (int seed = 1; seed <= seeds; ++seed) {
        run_and_keep_worst(
            suite,
            parse_case(fmt::format("lens=7+9 mask=all vocab=2003 values={} dtype={} seed={} {}",
                                   values, dtype, 1000 + seed, keys)),
            worst);
      }
    }
  }
}

}  // namespace

FittedRatios fit_bounds(int seeds) {
  FittedRatios worst;
  fit_regimes("", seeds, worst);
  return worst;
}

FittedRatios fit_term_bounds(int seeds) {
  FittedRatios worst;
  for (const char* objective :
       {"objective=nll objective.label_smoothing=0.1 objective.z_loss_coefficient=0.0001",
        "objective=distill", "objective=distill objective.kl_type=reverse teacher_topk=100",
        "objective=distill objective.kl_type=jsd objective.jsd_beta=0.1"}) {
    fit_regimes(objective, seeds, worst);
  }
  return worst;
}

FittedRatios fit_linear_bounds(int seeds) {
  Suite suite;
  suite.grids = {{1, 1}, {4, 1, 1, true}, {2, 2}};
  suite.implementations = right_ones(InputKind::hidden);
  for (const char* way : {"native", "converted"}) {
    suite.implementations.push_back(fmt::format("linear_ce:chunk_tokens=5:bf16_gemm={}", way));
  }
  Suite chunks;
  chunks.grids = {{1, 1}};
  for (const int rows : {1024, 512, 100, 16, 4, 1}) {  // 1 to 1024 chunks
    chunks.implementations.push_back(fmt::format("linear_ce:chunk_tokens={}", rows));
  }
  FittedRatios worst;
  for (const char* values : {"normal", "flat", "peaked", "all_negative", "offset", "overflow",
                             "ties", "edge_mass", "denormal", "late_max"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      for (int seed = 1; seed <= seeds; ++seed) {
        const std::string same =
            fmt::format(" mask=all values={} dtype={} seed={}", values, dtype, 1000 + seed);
        run_and_keep_worst(suite, parse_case("lens=17+9 vocab=257 hidden=320" + same), worst);
        run_and_keep_worst(chunks, parse_case("lens=1024 vocab=24 hidden=16" + same), worst);
      }
    }
  }
  return worst;
}

}  // namespace lossgrid
