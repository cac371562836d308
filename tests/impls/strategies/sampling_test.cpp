// SPDX-License-Identifier: Apache-2.0
// Losses over kept sets of ids: every implementation on problems whose rows have a target outside,
// ties at the k-th logit, one kept id, or a vocab shard that keeps nothing; on the processor and
// with the emulated kernels of GPUs.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/runner/run.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

struct SampledCase {
  const char* name;
  const char* text;
};

class Sampling : public ::testing::TestWithParam<SampledCase> {};

std::vector<Grid> sampling_grids() {
  if (kSanitized) return {{1, 1}, {2, 2}};
  return {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {4, 2}, {1, 2, 2}, {2, 1, 2, false, 2}};
}

TEST_P(Sampling, EveryImplementationPasses) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(GetParam().text)));
  std::vector<std::string> names = default_implementations(prepared.problem->spec.hidden > 0);
  for (const std::string& name : std::vector<std::string>(names)) {
    if (name == "fused" || name.starts_with("linear_ce")) names.push_back(name + ":chunk_tokens=3");
  }
  for (const Backend backend : {Backend::cpu, Backend::cuda_emulated}) {
    for (const std::string& name : names) {
      for (const Grid& grid : sampling_grids()) {
        // Queues of many launches take memory from the heap, with a mask or without one.
        const bool is_chunked = name.ends_with("=3");
        if (backend == Backend::cuda_emulated && (is_chunked || grid.dp > 1)) continue;
        const TrialSetup setup = make_trial(prepared, name, grid, backend);
        const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
        if (record.status == TrialStatus::skipped) {
          EXPECT_EQ(name, "one_sweep") << record.reason;
          continue;
        }
        EXPECT_EQ(record.status, TrialStatus::passed) << record.reason << "\n" << record.reproduce;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Sampling,
    ::testing::Values(
        SampledCase{"drop", "lens=9+14+2+7 mask=all vocab=101 top_k=5"},
        SampledCase{"zero", "lens=9+14+2+7 mask=all vocab=101 top_k=5 filtered_targets=zero"},
        SampledCase{"bf16", "lens=9+14+2+7 vocab=101 top_p=0.7 dtype=bf16 filtered_targets=zero"},
        SampledCase{"f64",
                    "lens=9+14+2+7 vocab=101 top_k=9 top_p=0.7 dtype=f64 "
                    "filtered_targets=zero"},
        SampledCase{"ties", "lens=9+14+2+7 vocab=64 values=ties top_k=3 targets=shard_edges"},
        SampledCase{"one_id", "lens=9+14+5 mask=all vocab=10 top_k=1 filtered_targets=zero"},
        SampledCase{"all_ids", "lens=9+14+5 mask=all vocab=101 top_k=101"},
        SampledCase{"empty_shards", "lens=9+14+5 mask=all vocab=101 values=edge_mass top_p=0.9"},
        SampledCase{"masked_vocab",
                    "lens=9+14+5 mask=all vocab=101 values=masked_vocab top_k=90 "
                    "filtered_targets=zero"},
        SampledCase{"capped",
                    "lens=9+14+5 mask=all vocab=101 logit_softcap=2 temperature=0.7 "
                    "sequence_temperatures=true top_k=20 filtered_targets=zero"},
        SampledCase{"terms",
                    "objective=nll objective.label_smoothing=0.1 "
                    "objective.z_loss_coefficient=0.01 lens=9+14+5 vocab=101 top_k=7 "
                    "filtered_targets=zero"},
        SampledCase{"policy",
                    "objective=clipped_pg objective.entropy_coefficient=0.1 "
                    "lens=9+14+2+7 vocab=101 top_p=0.8 filtered_targets=zero"},
        SampledCase{"dropped_policy", "objective=clipped_pg lens=9+14+2+7 vocab=101 top_k=5"},
        SampledCase{"hidden", "lens=9+14+5 vocab=101 hidden=12 top_k=5 filtered_targets=zero"},
        SampledCase{"hidden_bf16",
                    "objective=clipped_pg objective.entropy_coefficient=0.1 "
                    "lens=9+14+5 vocab=101 hidden=12 top_p=0.9 dtype=bf16 "
                    "logit_softcap=4"},
        SampledCase{"overflow",
                    "lens=9+14+5 vocab=101 values=overflow top_k=5 "
                    "filtered_targets=zero"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Sampling, ADivergenceFromATeacherTakesNoMask) {
  EXPECT_THROW(prepare(make_problem(parse_case("objective=distill lens=5 vocab=9 top_k=3"))),
               Error);
}

}  // namespace
}  // namespace lossgrid
