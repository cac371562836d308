// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/scale_identity.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/loss/framework_scale.h"
#include "harness/problem/case/framework.h"
#include "harness/runner/verdict/trial_verdict.h"
#include "reports/record/invariants.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kScaleInvariant{
    {.name = kScaleIdentity,
     .condition = "case with a framework: the factors of an implementation's own scale give the "
                  "framework's loss",
     .place = 21}};

/// Returns "" if the terms of all ranks and microbatches have the weight of a mean over the global
/// batch, else what the weight must be, or where it is another one.
std::string wrong_weight(const TrialSetup& setup, const Framework& framework,
                         const ScaleSizes& sizes) {
  if (framework.counts == LossCounts::global) {
    return framework.net().is_one(sizes) ? "" : ", must be 1";
  }
  for (std::size_t k = 0; k < setup.microbatches.size(); ++k) {
    const TrialMicrobatch& microbatch = setup.microbatches[k];
    for (std::size_t d = 0; d < microbatch.parts.size(); ++d) {
      const PackedBatch batch = pack(*microbatch.parts[d].problem, microbatch.grid);
      const std::vector<TokenCounts> by_rank = token_counts(batch, microbatch.grid.cp);
      const auto wrong = std::find_if(
          by_rank.begin(), by_rank.end(),
          [&](const TokenCounts& tokens) { return !framework.is_right(sizes, tokens); });
      if (wrong == by_rank.end()) continue;
      return fmt::format(
          ": {:.6g} times the weight for {} tokens of dp rank {}, microbatch {}, cp rank {}, must "
          "be 1",
          framework.gradient_weight(sizes, *wrong) * static_cast<double>(wrong->global),
          wrong->rank, d, k, wrong - by_rank.begin());
    }
  }
  return "";
}

}  // namespace

void add_scale_identity(const TrialSetup& setup, TrialRecord& record) {
  const auto framework = stated_framework(setup.problem->spec.framework);
  if (!framework) return;
  const ScaleSizes sizes = scale_sizes(*setup.problem, setup.grid);
  const std::string wrong = wrong_weight(setup, *framework, sizes);
  record.invariants.push_back({kScaleInvariant.name, wrong.empty() ? "passed" : "failed",
                               describe_scale(*framework, sizes) + wrong});
}

}  // namespace lossgrid
