// SPDX-License-Identifier: Apache-2.0
// Other libraries' cross entropies (python/peers) as external implementations: right
// implementations pass, copies with one mistake fail, and declared roundings allow no other errors.
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

const std::string kPeers = LOSSGRID_SOURCE_DIR "/python/peers/";
const std::string kTwins = LOSSGRID_SOURCE_DIR "/tests/external/peer_twins.py";

const std::string kWholeLogits =
    "--case 'lens=40+24 mask=ragged vocab=96' "
    "--case 'lens=40+24 mask=ragged vocab=96 dtype=bf16 values=edge_mass' ";
const std::string kFromHidden =
    "--case 'lens=40+24 mask=ragged vocab=96 hidden=16' "
    "--case 'lens=40+24 mask=ragged vocab=512 hidden=64 dtype=bf16' ";
const std::string kLargeLogits =
    "--case 'lens=40+24 mask=ragged vocab=512 hidden=64 dtype=bf16 values=offset' "
    "--case 'lens=40+24 mask=ragged vocab=512 hidden=64 dtype=bf16 values=overflow' ";

class Peers : public WithTorch {
 protected:
  struct Outcome {
    std::set<std::string> statuses;
    std::set<std::string> failures;  // names of the checks that some trial failed
    std::string reason;              // reason of a trial that did not pass
  };

  /// Returns the outcome of every implementation over all cases that it takes.
  std::map<std::string, Outcome> outcomes(const std::vector<std::string>& files,
                                          const std::string& implementations,
                                          const std::string& arguments, int exit_code) const {
    const std::string report = scratch_.file("peers.json");
    const ProcessResult result = run_loaded(
        "run", files, "--impl " + implementations + " " + arguments + "--report " + report);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    std::map<std::string, Outcome> found;
    for (const ordered_json& trial : records_of(report, "trials")) {
      const std::string reason = trial["reason"];
      if (reason.starts_with("takes logits;") || reason.starts_with("takes hidden states;")) {
        continue;
      }
      Outcome& outcome = found[trial["implementation"]];
      outcome.statuses.insert(trial["status"]);
      if (!reason.empty()) outcome.reason = reason;
      for (const ordered_json& check : trial["checks"]) {
        if (!check["passed"]) outcome.failures.insert(check["name"]);
      }
    }
    return found;
  }
};

using Statuses = std::set<std::string>;

TEST_F(Peers, FromPyTorchAreRight) {
  const auto found = outcomes(
      {kPeers + "torch_cross_entropy.py", kPeers + "torch_linear_cross_entropy.py"},
      "torch_eager,torch_by_token,torch_linear_eager,torch_linear_cross_entropy",
      kWholeLogits + kFromHidden + kLargeLogits +
          "--case 'lens=4+3 mask=all vocab=41 values=impossible_target' ",  // the loss is inf
      0);
  EXPECT_EQ(found.size(), 4U);
  for (const auto& [name, outcome] : found) {
    const bool is_old = outcome.reason.find("has no torch.") != std::string::npos;
    EXPECT_EQ(outcome.statuses, Statuses{is_old ? "skipped" : "passed"}) << name;
  }
}

TEST_F(Peers, CompiledByPyTorchAreRight) {
  const auto found = outcomes({kPeers + "torch_cross_entropy.py"}, "torch_compiled",
                              "--case 'lens=5+8 vocab=96' ", 0);
  EXPECT_THAT(found.at("torch_compiled").statuses, ::testing::Not(::testing::Contains("failed")));
}

TEST_F(Peers, TakeTheMeanOfOnePackOnOneRank) {
  const auto found =
      outcomes({kPeers + "torch_cross_entropy.py"}, "torch_eager",
               "--grid tp1cp1,tp2cp1 --case 'lens=5+8 vocab=96 microbatches=2' "
               "--case 'lens=5+7 mask=all global_valid_toks=16 vocab=64' "
               "--case 'objective=dpo lens=5+8 vocab=96' --case 'lens=3+2 mask=000+00 vocab=7' ",
               77);
  EXPECT_EQ(found.at("torch_eager").statuses, Statuses{"skipped"});
}

TEST_F(Peers, WithoutTheirLibraryAreSkippedWithTheReason) {
  const auto found =
      outcomes({kPeers + "liger.py", kPeers + "apple_cce.py", kPeers + "quack_cross_entropy.py"},
               "liger,liger_linear,cce,cce_unfiltered,quack,quack_in_place,fused,linear_ce",
               "--case 'lens=5+8 vocab=96' --case 'lens=5+8 vocab=96 hidden=8' ", 0);
  EXPECT_EQ(found.at("fused").statuses, Statuses{"passed"});
  for (const char* name :
       {"liger", "liger_linear", "cce", "cce_unfiltered", "quack", "quack_in_place"}) {
    EXPECT_EQ(found.at(name).statuses, Statuses{"skipped"}) << name;
    EXPECT_THAT(found.at(name).reason,
                ::testing::AnyOf(HasSubstr(" is not installed"), HasSubstr("needs a GPU")));
  }
}

TEST_F(Peers, TwinsThatAreWrongAreRejected) {
  std::string twins = "of_logits,of_hidden";
  for (const char* way :
       {"loss", "zero", "not_finite", "last_id", "ignored_row", "scale", "denominator"}) {
    twins += fmt::format(",of_logits:wrong={0},of_hidden:wrong={0}", way);
  }
  const auto found = outcomes({kTwins}, twins, kWholeLogits + kFromHidden, 10);
  EXPECT_EQ(found.size(), 16U);
  for (const auto& [name, outcome] : found) {
    const bool is_wrong = name.find("wrong") != std::string::npos;
    EXPECT_EQ(outcome.statuses, Statuses{is_wrong ? "failed" : "passed"}) << name;
  }
}

TEST_F(Peers, AGradientThatIsCutOffIsNoRoundedOne) {
  const auto found =
      outcomes({kTwins}, "truncates", "--case 'lens=40+24 mask=ragged vocab=96 dtype=bf16' ", 10);
  EXPECT_THAT(found.at("truncates").failures, ::testing::Contains("grad_logits"));
}

TEST_F(Peers, RoundingsHaveToBeDeclared) {
  const auto found =
      outcomes({kTwins}, "of_hidden,declares_nothing,declares_no_logits", kLargeLogits, 10);
  EXPECT_EQ(found.at("of_hidden").statuses, Statuses{"passed"});
  EXPECT_THAT(found.at("declares_no_logits").failures,
              IsSupersetOf({"loss", "grad_hidden", "grad_weight"}));
  EXPECT_THAT(found.at("declares_nothing").failures,
              IsSupersetOf({"loss", "grad_hidden", "grad_weight"}));
}

TEST_F(Peers, ProductsInFloat32AreNotTakenForRoundedOnes) {
  const auto found =
      outcomes({kExamples + "linear.py"}, "linear",
               "--case 'lens=40+24 mask=all vocab=512 hidden=64 dtype=bf16 values=flat' ", 0);
  EXPECT_EQ(found.at("linear").statuses, Statuses{"passed"});
}

TEST_F(Peers, RoundingsOfLossAndOfChunksHaveToBeDeclared) {
  const auto found =
      outcomes({kTwins}, "declares_the_loss,declares_no_loss,declares_chunks,declares_no_chunks",
               "--case 'lens=40+24 mask=ragged vocab=512 hidden=64 dtype=bf16 values=flat' ", 10);
  EXPECT_EQ(found.at("declares_the_loss").statuses, Statuses{"passed"});
  EXPECT_THAT(found.at("declares_no_loss").failures, ::testing::ElementsAre("loss"));
  EXPECT_EQ(found.at("declares_chunks").statuses, Statuses{"passed"});
  EXPECT_THAT(found.at("declares_no_chunks").failures, ::testing::Contains("grad_weight"));
}

TEST_F(Peers, AreTimedInTheRoundsOfBuiltInOnes) {
  const std::string report = scratch_.file("timed.json");
  const ProcessResult result =
      run_loaded("bench", {kPeers + "torch_cross_entropy.py", kPeers + "liger.py"},
                 "--impl fused,torch_eager,liger --case 'lens=40+24 vocab=512' --max-seconds 0.3 "
                 "--report " +
                     report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json timing = records_of(report, "timings").at(0);
  std::map<std::string, std::set<std::string>> phases;
  for (const ordered_json& row : timing["rows"]) {
    EXPECT_EQ(row["samples_ns"].size(), timing["rounds"]);
    EXPECT_GT(row["speedup"], 0);
    phases[row["implementation"]].insert(row["phase"]);
  }
  const std::set<std::string> all = {"forward", "backward", "forward_backward"};
  EXPECT_EQ(phases,
            (std::map<std::string, std::set<std::string>>{{"fused", all}, {"torch_eager", all}}));
  EXPECT_EQ(timing["skipped"].at(0)["implementation"], "liger");
  EXPECT_THAT(result.out, HasSubstr("skipped: liger: "));
}

TEST_F(Peers, WalkThroughTheirCachesAsOftenAsBuiltInOnes) {
  const std::string log = scratch_.file("calls");
  const std::string file = write_python("logs.py", fmt::format(R"(
import lossgrid.trial

log = open("{}", "ab", buffering=0)
walk_cache = lossgrid.trial.walk_cache


def walk(device, size):
    log.write(b"walk ")
    walk_cache(device, size)
    assert size > 0


lossgrid.trial.walk_cache = walk


@lossgrid.implementation
def logs(logits, batch):
    """Notes its calls."""
    log.write(b"forward ")
    return right(logits, batch)
)",
                                                               log));
  const auto calls_of = [&](const std::string& cache) {
    std::filesystem::remove(log);
    const ProcessResult result = run_loaded(
        "bench", {file},
        "--impl logs --case 'lens=5+8 vocab=96' --min-samples 2 --max-seconds 0.01 --cache " +
            cache);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return read_all(log);
  };
  // Forward, backward, and both after one walk.
  EXPECT_THAT(calls_of("cold"), ::testing::MatchesRegex("(walk forward walk walk forward )+"));
  EXPECT_THAT(calls_of("hot"), ::testing::MatchesRegex("(forward )+"));
}

}  // namespace
}  // namespace lossgrid
