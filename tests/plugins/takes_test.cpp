// SPDX-License-Identifier: Apache-2.0
// `takes` of a description: sampling masks, teachers, transforms, a bias and CP layouts are given
// to plugins that declare that they take them, and to no others. Shards of 25 ids on two ranks have
// a column of padding, one of the four of 5 ids has none of its own.
#include "plugins.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

const std::string kGrids = " --grid tp1cp1,tp2cp2,tp4cp1,tp2cp1dp2";
const std::string kSampled =
    "--case 'lens=5+8+1 vocab=[25,5] top_k=3 temperature=0.7 mask=ragged dtype=[f32,bf16] "
    "filtered_targets=[drop,zero]'";
const std::string kDistilled =
    "--case 'lens=5+8+1 vocab=[25,5] objective=distill mask=ragged temperature=0.7 "
    "teacher_hidden=[0,4] dtype=[f32,bf16]'";

class PluginTakes : public PluginsInBothPlaces {};

TEST_P(PluginTakes, ASamplingMask) {
  run("sampled", GetParam(), "c_sampled", kSampled + kGrids, 0);
  EXPECT_THAT(result_.out, HasSubstr("32 passed\n"));
  run("sampled", GetParam(), "c_sampled",
      "--case 'lens=5+8 vocab=25 top_p=0.6 objective=clipped_pg logit_softcap=3 logit_scale=2 "
      "microbatches=2' --case 'lens=5+8 vocab=25 temperature=0.7'" +
          kGrids,
      0);
  EXPECT_THAT(result_.out, HasSubstr("8 passed\n"));
}

TEST_P(PluginTakes, ATeacher) {
  run("distill", GetParam(), "c_distill", kDistilled + kGrids + ",tp2cp1sp", 0);
  EXPECT_THAT(result_.out, HasSubstr("40 passed\n"));
  run("distill", GetParam(), "c_distill",
      "--case 'lens=5+8 vocab=25 objective=distill teacher_topk=[0,3] sequence_temperatures=true "
      "logit_softcap=2 microbatches=2'" +
          kGrids,
      0);
  EXPECT_THAT(result_.out, HasSubstr("8 passed\n"));
}

TEST_P(PluginTakes, ABiasOfTheLmHead) {
  run("hidden_nll", GetParam(), "cpp_hidden_nll",
      "--case 'lens=5+8 vocab=[25,5] hidden=6 lm_head_bias=true temperature=0.7'" + kGrids, 0);
  EXPECT_THAT(result_.out, HasSubstr("24 passed\n"));  // with the blocks that it offers
}

TEST_P(PluginTakes, NothingThatIsNotDeclared) {
  const auto skipped = [&](const char* library, const char* implementation, const char* options) {
    auto trials = run(library, GetParam(), implementation,
                      fmt::format("--case 'lens=3 vocab=8 {}'", options), 77);
    return reason_of(trials[implementation]);
  };
  EXPECT_THAT(skipped("vocab_parallel", "c_vocab_parallel", "top_k=3"),
              HasSubstr("takes=\"sampling_mask\""));
  EXPECT_THAT(skipped("vocab_parallel", "c_vocab_parallel", "temperature=2"),
              HasSubstr("takes=\"transforms\""));
  EXPECT_THAT(skipped("sampled", "c_sampled", "sequence_temperatures=true"),
              HasSubstr("takes=\"sequence_temperatures\""));
  EXPECT_THAT(skipped("conventions", "c_mean_nll", "objective=distill"),
              HasSubstr("takes=\"teacher\""));
  EXPECT_THAT(skipped("conventions", "c_mean_nll", "objective=distill teacher_hidden=4"),
              HasSubstr("takes=\"teacher_hidden\""));
}

TEST_P(PluginTakes, LayoutsOfRows) {
  const std::string grids =
      " --grid tp1cp2:contiguous,tp2cp2:zigzag_row,tp1cp3:ulysses,tp1cp2:contiguous_sequence";
  const std::string logits = "--case 'lens=5+8+1+3 vocab=25 microbatches=2'";
  run("sampled", GetParam(), "c_sampled", logits + grids, 0);
  EXPECT_THAT(result_.out, HasSubstr("4 passed\n"));
  run("hidden_nll", GetParam(), "cpp_hidden_nll", "--case 'lens=5+8+1+3 vocab=25 hidden=4'" + grids,
      0);
  EXPECT_THAT(result_.out, HasSubstr("12 passed\n"));  // with the blocks that it offers
  auto skipped = run("vocab_parallel", GetParam(), "c_vocab_parallel", logits + grids, 77);
  EXPECT_THAT(reason_of(skipped["c_vocab_parallel"]), HasSubstr("takes=\"layouts\""));
}

TEST_P(PluginTakes, PlacesOfRowsDependOnTheLayout) {
  const std::string twin = "--case 'lens=5+8+1+3 vocab=25' --grid tp1cp2";
  for (const char* layout : {":contiguous", ":ulysses"}) {
    run("wrong_twins", GetParam(), "twin_in_rank_order", twin + layout, 0);
  }
  for (const char* layout : {"", ":zigzag_row", ":contiguous_sequence"}) {
    run("wrong_twins", GetParam(), "twin_in_rank_order", twin + layout, 10);
  }
}

/// A plan of a pack has the grid of its microbatch.
TEST_P(PluginTakes, CpSizesByMicrobatch) {
  const std::string grids = " --grid tp2cp4:dynamic,tp1cp2dp2:dynamic";
  const std::string lengths = "--case 'lens=3+29+2+15+9 vocab=25 microbatches=3";
  run("conventions", GetParam(), "c_mean_nll,c_framework_nll", lengths + "'" + grids, 0);
  EXPECT_THAT(result_.out, HasSubstr("4 passed\n"));
  run("hidden_nll", GetParam(), "cpp_hidden_nll", lengths + " hidden=4'" + grids, 0);
  EXPECT_THAT(result_.out, HasSubstr("6 passed\n"));  // with the blocks that it offers
}

TEST_P(PluginTakes, MistakesWithAMaskAreRejected) {
  const std::string zero = "--case 'lens=5+8+9 vocab=25 top_k=3 filtered_targets=zero'";
  auto trials = run("wrong_sampled", GetParam(),
                    "twin_over_all_ids,twin_gradient_over_all_ids,twin_mask_of_next_column,"
                    "twin_keeps_filtered_targets,twin_changes_mask",
                    zero + " --grid tp2cp1", 10);
  for (const auto& [implementation, trial] : trials) {
    EXPECT_EQ(trial.at("status"), "failed") << implementation;
  }
  EXPECT_EQ(trials.size(), 5u);
  EXPECT_THAT(failed_invariants(trials["twin_changes_mask"])["inputs_unmodified"],
              HasSubstr("sampling_mask"));
}

TEST_P(PluginTakes, MistakesWithATeacherAreRejected) {
  for (const char* teacher : {"teacher_hidden=0", "teacher_hidden=4"}) {
    auto trials = run(
        "wrong_distill", GetParam(),
        "twin_teacher_of_first_row,twin_teacher_of_own_ids,twin_forgets_teacher,"
        "twin_changes_teacher",
        fmt::format("--case 'lens=5+8 vocab=25 objective=distill {}' --grid tp2cp1", teacher), 10);
    for (const auto& [implementation, trial] : trials) {
      EXPECT_EQ(trial.at("status"), "failed") << implementation << ' ' << teacher;
    }
    EXPECT_EQ(trials.size(), 4u);
    EXPECT_THAT(failed_invariants(trials["twin_changes_teacher"])["inputs_unmodified"],
                HasSubstr("teacher_"));
  }
}

INSTANTIATE_TEST_SUITE_P(Places, PluginTakes, ::testing::Values(Place::in_process, Place::isolated),
                         name_of_place);

}  // namespace
}  // namespace lossgrid
