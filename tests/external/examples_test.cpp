// SPDX-License-Identifier: Apache-2.0
// The examples of the Python package as a user runs them: right examples pass wherever they declare
// support, wrong examples are rejected for their mistake.
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

const std::string kGrids = "--grid tp1cp1,tp2cp1,tp2cp2,tp1cp4,tp2cp1dp2 ";
const std::set<std::string> kGridNames = {"tp1cp1", "tp2cp1", "tp2cp2", "tp1cp4", "tp2cp1dp2"};

std::string grid_of(const ordered_json& trial) {
  const auto axis = [&](const char* name) { return trial["grid"].value(name, 1); };
  std::string text = fmt::format("tp{}cp{}", axis("tp"), axis("cp"));
  if (axis("dp") > 1) text += fmt::format("dp{}", axis("dp"));
  return text;
}

/// Returns the names of the checks and invariants that a trial failed.
std::vector<std::string> failures_of(const ordered_json& trial) {
  std::vector<std::string> names;
  for (const auto& check : trial["checks"]) {
    if (!check["passed"]) names.push_back(check["name"]);
  }
  for (const auto& invariant : trial["invariants"]) {
    if (invariant["status"] == "failed") names.push_back(invariant["name"]);
  }
  return names;
}

using ExternalExamples = WithTorch;

TEST_F(ExternalExamples, RightOnesPassOnEveryGridThatTheySupport) {
  const std::string report = scratch_.file("right.json");
  const ProcessResult result = run_loaded(
      "run",
      {kExamples + "vocab_parallel.py", kExamples + "cp_gather.py", kExamples + "entropy.py",
       kExamples + "grpo_loss.py", kExamples + "linear.py", kExamples + "bigram_engine.py",
       kExamples + "value_loss.py"},
      kGrids +
          "--impl vocab_parallel,cp_gather,entropy,grpo_loss,linear,bigram_engine,value_loss "
          "--case 'lens=5+8+0+1 vocab=27 mask=all values=edge_mass' "
          "--case 'lens=5+8+1+9 vocab=26 dtype=bf16 values=offset microbatches=2' "
          "--case 'lens=5+8+1+4 vocab=27 objective=clipped_pg values=masked_vocab' "
          "--case 'lens=5+8+0+1 vocab=27 hidden=9 dtype=bf16 microbatches=2' "
          "--case 'lens=9+14+5 vocab=101 hidden=17 dtype=bf16 values=overflow' "
          "--case 'lens=5+8+1+9 vocab=27 hidden=27 hidden_values=one_hot' "
          "--case 'lens=5+8+1+9 objective=value objective.cliprange_value=0.5 head=value "
          "drift=edge microbatches=2' "
          "--report " +
          report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::map<std::string, std::set<std::string>> passed;
  for (const ordered_json& trial : records_of(report, "trials")) {
    const std::string status = trial["status"];
    EXPECT_TRUE(status == "passed" || status == "skipped") << trial["id"] << trial["reason"];
    if (status == "passed") passed[trial["implementation"]].insert(grid_of(trial));
  }
  for (const char* name : {"vocab_parallel", "cp_gather", "entropy", "grpo_loss", "linear",
                           "bigram_engine", "value_loss"}) {
    EXPECT_EQ(passed[name], kGridNames) << name;
  }
}

TEST_F(ExternalExamples, AreJudgedTheSameOnADevice) {
  // The host cannot read the tensors of an emulated device.
  const std::string cases =
      "--backend cuda_emulated --grid tp2cp2 "
      "--case 'lens=5+8+1+9 vocab=26 dtype=bf16 microbatches=2' "
      "--case 'lens=5+8+1+4 vocab=27 objective=clipped_pg mask=all' "
      "--case 'lens=5+8+0+1 vocab=27 hidden=9' "
      "--case 'lens=5+8+1+9 vocab=27 hidden=27 hidden_values=one_hot' ";
  const ProcessResult right =
      run_loaded("run",
                 {kExamples + "vocab_parallel.py", kExamples + "grpo_loss.py",
                  kExamples + "linear.py", kExamples + "bigram_engine.py"},
                 cases + "--impl vocab_parallel,grpo_loss,linear,bigram_engine");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_THAT(right.out, HasSubstr("6 passed, 10 skipped"));
  const ProcessResult wrong = run_loaded(
      "run",
      {kExamples + "wrong/gradient_summed_over_cp.py", kExamples + "wrong/overwrites_logits.py"},
      cases + "--impl gradient_summed_over_cp,overwrites_logits");
  EXPECT_EQ(wrong.exit_code, 10) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("grad_logits is 2.000 x the truth, which cp = 2 would explain"));
}

TEST_F(ExternalExamples, WrongOnesAreRejectedByWhatIsWrong) {
  // By name: checks and invariants that fail in some trial.
  const std::map<std::string, std::vector<std::string>> causes = {
      {"bf16_accumulation", {"grad_weight"}},
      {"clips_gradient", {"grad_weight", "grad_weight_bias"}},
      {"entropy_gradient_left_out", {"grad_logits"}},
      {"entropy_gradient_times_tp", {"grad_logits"}},
      {"entropy_of_shard", {"grad_logits"}},
      {"evaluation_loss_scaled", {"evaluation_as_training"}},
      {"gradient_summed_over_cp", {"grad_logits", "grad_logits_bias"}},
      {"infinity_times_zero", {"entropy"}},
      {"labels_rolled_after_split", {"logprobs", "loss"}},
      {"local_denominator", {"loss", "grad_logits_bias"}},
      {"max_not_reduced", {"logprobs", "loss"}},
      {"overwrites_logits", {"inputs_unmodified"}},
      {"static_buffer", {"microbatches_in_flight"}},
      {"tail_cut_off", {"entropy"}},
  };
  std::vector<std::string> files;
  std::string names;
  for (const auto& [name, checks] : causes) {
    files.push_back(kExamples + "wrong/" + name + ".py");
    names += (names.empty() ? "" : ",") + name;
  }
  const std::string report = scratch_.file("wrong.json");
  const ProcessResult result =
      run_loaded("run", files,
                 "--grid tp2cp1,tp2cp2 --impl " + names +
                     " --case 'lens=5+8+0+1 vocab=27 values=masked_vocab' "
                     "--case 'lens=5+8+1+4 vocab=27 objective=clipped_pg mask=all' "
                     "--case 'lens=5+8+1+4 vocab=27 objective=clipped_pg "
                     "objective.entropy_coefficient=0.05 mask=all' "
                     "--case 'lens=150+200+90 vocab=27 hidden=16 dtype=bf16' "
                     "--case 'lens=5 vocab=128256 mask=all values=peaked' "
                     "--case 'lens=5+8+1+4 vocab=27 hidden=27 hidden_values=one_hot' "
                     "--case 'lens=2 mask=all vocab=27 hidden=27 hidden_values=one_hot scale=8' "
                     "--report " +
                     report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  std::map<std::string, std::set<std::string>> found;
  for (const ordered_json& trial : records_of(report, "trials")) {
    const std::string status = trial["status"];
    EXPECT_TRUE(status == "passed" || status == "skipped" || status == "failed")
        << trial["id"] << trial["reason"];
    for (const std::string& name : failures_of(trial)) found[trial["implementation"]].insert(name);
  }
  for (const auto& [name, checks] : causes) {
    EXPECT_THAT(found[name], IsSupersetOf(checks)) << name;
  }
}

}  // namespace
}  // namespace lossgrid
