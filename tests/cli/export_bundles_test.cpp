// SPDX-License-Identifier: Apache-2.0
// Tests of bundles written by `lossgrid export`, read with nothing but a JSON parser: objectives
// with all options, entropies, and the views of ranks.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "problem/editable_bundle.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

TEST(ExportBundles, HoldEveryOptionOfTheObjective) {
  const ScratchFolder scratch;
  const std::string path = scratch.file("b.safetensors");
  ASSERT_EQ(run_lossgrid(scratch,
                         "export --case 'objective=dpo objective.sft_loss_weight=0.1 "
                         "lens=5+8 vocab=9' --expected --out " +
                             path)
                .exit_code,
            0);
  EditableBundle file = EditableBundle::read(path);
  EXPECT_EQ(nlohmann::json::parse(file.metadata()["objective"].get<std::string>()),
            (nlohmann::json{{"kind", "dpo"},
                            {"discopop_tau", 0.05},
                            {"f_alpha_divergence_coef", 0.5},
                            {"f_divergence_type", "reverse_kl"},
                            {"ipo_average_log_probs", true},
                            {"label_smoothing", 0.0},
                            {"ld_alpha", nullptr},
                            {"loss_type", "sigmoid"},
                            {"preference_average_log_probs", false},
                            {"preference_loss_weight", 1},
                            {"reference_policy_kl_penalty", 0.05},
                            {"sft_average_log_probs", false},
                            {"sft_loss_weight", 0.1},
                            {"use_weighting", false}}));
  EXPECT_EQ(file.metadata()["case"],
            "objective=dpo objective.sft_loss_weight=0.1 lens=5+8 vocab=9");
  EXPECT_EQ(file.header.at("expected.entropy")["shape"], nlohmann::json({13}));
  EXPECT_EQ(file.get<double>("expected.entropy", 5), 0);  // a first token
  EXPECT_GT(file.get<double>("expected.entropy", 6), 0.5);
  EXPECT_EQ(run_lossgrid(scratch, "replay " + path + " --grid tp1cp1,tp2cp2").exit_code, 0);
}

TEST(ExportBundles, ViewsOfRanksStandBesideTheBundle) {
  const ScratchFolder scratch;
  const std::string path = scratch.file("b.safetensors");
  const std::string text = "export --case 'lens=5+8 vocab=9 hidden=4' --out " + path;
  const ProcessResult result = run_lossgrid(scratch, text + " --grid tp2cp2sp --per-rank");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("4 views of tp2cp2sp"));
  for (int rank = 0; rank < 4; ++rank) {
    const EditableBundle view =
        EditableBundle::read(scratch.file("b.rank" + std::to_string(rank) + ".safetensors"));
    EXPECT_EQ(view.header.at("__metadata__")["rank"], std::to_string(rank));
    EXPECT_EQ(view.header.at("weight")["shape"], nlohmann::json({5, 4}));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.file("b.rank4.safetensors")));

  const std::string suite = "export --suite smoke --out " + scratch.file("suite");
  ASSERT_EQ(run_lossgrid(scratch, suite + " --grid tp2 --per-rank").exit_code, 0);
  int bundles = 0;
  int views = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.file("suite"))) {
    const bool is_view = entry.path().string().find(".rank") != std::string::npos;
    (is_view ? views : bundles) += 1;
  }
  EXPECT_GT(bundles, 0);
  EXPECT_EQ(views, 2 * bundles);
}

TEST(ExportBundles, ViewsNeedOneGridOfTpCpAndSp) {
  const ScratchFolder scratch;
  const std::string text =
      "export --case 'lens=5+8 vocab=9' --out " + scratch.file("b.safetensors");
  for (const char* flags :
       {" --per-rank", " --grid tp2", " --per-rank --grid dp2", " --per-rank --grid tp2pp2"}) {
    const ProcessResult result = run_lossgrid(scratch, text + flags);
    EXPECT_EQ(result.exit_code, 64) << flags;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(scratch.file("b.safetensors"))) << flags;
  }
  const ProcessResult wide = run_lossgrid(scratch, text + " --per-rank --grid tp16");
  EXPECT_EQ(wide.exit_code, 65);
  EXPECT_THAT(wide.err, HasSubstr("tp = 16"));
}

}  // namespace
}  // namespace lossgrid
