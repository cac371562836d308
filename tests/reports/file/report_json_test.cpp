// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/file/report_format.h"
#include "sample_run.h"
#include "text_parts.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ReportJson, ReadsBackAsItWas) {
  const Json report = run_to_json(sample_run());
  for (const int indent : {-1, 0, 2}) {
    const std::string text = json_text(report, indent);
    EXPECT_EQ(Json::parse(text), report);
    EXPECT_EQ(json_text(Json::parse(text), indent), text);
  }
  EXPECT_THAT(json_text(report, -1), Not(HasSubstr("\n")));
}

TEST(ReportJson, KeyOrderIsFixed) {
  const Json report = run_to_json(sample_run());
  EXPECT_THAT(keys_of(report), ElementsAre("schema", "run", "environment", "summary", "trials",
                                           "tables", "timings", "meter"));
  EXPECT_THAT(keys_of(report["run"]), ElementsAre("command", "arguments", "suite", "started_utc",
                                                  "ended_utc", "status", "exit_code", "stages_ns"));
  EXPECT_THAT(keys_of(report["summary"]),
              ElementsAre("trials", "passed", "failed", "skipped", "error", "timeout", "crashed",
                          "out_of_memory", "not_run"));
  const std::vector<std::string> trial_keys = keys_of(report["trials"][0]);
  EXPECT_THAT(
      trial_keys,
      ElementsAre("id", "case", "grid", "implementation", "details", "backend", "transport",
                  "status", "reason", "explanation", "first_failed_rank", "rank_states", "batch",
                  "chunks", "metrics", "metric_reductions", "branches", "checks", "relative_l2",
                  "gradient_scale", "invariants", "determinism", "memory", "communication", "times",
                  "fingerprints", "cost_mismatches", "unjudged", "reproduce"));
  for (const Json& trial : report["trials"]) EXPECT_EQ(keys_of(trial), trial_keys);
  EXPECT_THAT(keys_of(report["trials"][0]["case"]["parameters"]),
              ElementsAre("objective", "lens", "vocab", "scale"));
  EXPECT_THAT(keys_of(report["trials"][0]["grid"]), ElementsAre("tp", "cp", "dp", "pp", "sp"));
  EXPECT_THAT(keys_of(report["trials"][0]["batch"]),
              ElementsAre("tokens", "padded_tokens", "valid_tokens", "microbatches"));
}

TEST(ReportJson, StagesAddUpToTheWholeRun) {
  RunRecord run = sample_run();
  run.wall_ns = 0;  // still running
  EXPECT_TRUE(run_to_json(run)["run"]["stages_ns"].is_null());
  run.wall_ns = 100;
  run.stages = {{1, 2, 30, 4, 3, 5}};
  const Json stages = run_to_json(run)["run"]["stages_ns"];
  EXPECT_EQ(stages.dump(),
            R"({"generate":1,"truth":2,"run":30,"compare":4,"bits":3,"report":5,"other":55})");
}

TEST(ReportJson, MutantsHaveAScoreAndOnlyTheirCommandDoes) {
  const Json report = run_to_json(sample_mutants_run());
  EXPECT_THAT(keys_of(report), ElementsAre("schema", "run", "environment", "summary", "trials",
                                           "tables", "timings", "meter", "mutants", "score"));
  EXPECT_EQ(report["mutants"].size(), 4u);
  EXPECT_EQ(report["mutants"][0]["rejected_by"]["checks"][1], "grad_logits_bias");
  EXPECT_TRUE(report["mutants"][1]["catalogue_id"].is_null());
  EXPECT_TRUE(report["mutants"][3]["rejected_by"].is_null());
  EXPECT_EQ(report["score"]["rejected"], 3);
  EXPECT_EQ(report["score"]["total"], 3);
  EXPECT_EQ(report["score"]["controls_accepted"], 1);
}

TEST(ReportJson, GridAndBatchHoldTheSplitOfTheBatch) {
  const Json trial = trial_to_json(sample_trial(2, 4, "fused", 3));
  EXPECT_EQ(trial["grid"], Json::parse(R"({"tp": 2, "cp": 4, "dp": 3, "pp": 1, "sp": false})"));
  EXPECT_EQ(trial["batch"]["microbatches"], 3);
  const Json& batch_phase = trial["communication"].back();
  EXPECT_EQ(batch_phase["phase"], "batch");
  EXPECT_EQ(batch_phase["group"], "dp");

  const Json whole = trial_to_json(TrialRecord());
  EXPECT_EQ(whole["grid"], Json::parse(R"({"tp": 1, "cp": 1, "dp": 1, "pp": 1, "sp": false})"));
  EXPECT_EQ(whole["batch"]["microbatches"], 1);

  TrialRecord staged;
  staged.pp = 4;
  EXPECT_EQ(trial_to_json(staged)["grid"]["pp"], 4);
}

TEST(ReportJson, HoldsChunksAndDetailsForHiddenStates) {
  const Json trial = trial_to_json(sample_linear_trial(8, 2e-7, 0.25));
  EXPECT_EQ(trial["grid"]["sp"], true);
  EXPECT_EQ(trial["chunks"], 8);
  EXPECT_EQ(trial["details"], Json::parse(R"({"gemm": "a library"})"));
  EXPECT_EQ(trial["relative_l2"], Json::parse(R"({"grad_hidden": 1e-7, "grad_weight": 2e-7})"));
  EXPECT_EQ(trial["times"][0]["predicted_flops"], 12288);
  const Json of_logits = trial_to_json(sample_trial(1, 1, "fused"));
  EXPECT_EQ(of_logits["chunks"], 0);
  EXPECT_EQ(of_logits["details"], Json::object());
  EXPECT_EQ(of_logits["relative_l2"], Json::object());
}

TEST(ReportJson, HoldsTheTableByChunks) {
  RunRecord run = sample_run();
  EXPECT_EQ(run_to_json(run)["tables"]["grad_weight_error_by_chunks"], Json::array());
  run.trials = {sample_linear_trial(4, 2e-7, 0.25), sample_linear_trial(1, 1e-7, 0.5),
                sample_linear_trial(16, std::numeric_limits<double>::quiet_NaN(), 3)};
  const Json rows = run_to_json(run)["tables"]["grad_weight_error_by_chunks"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], Json::parse(R"({"case": "C0: vocab=96 hidden=8", "chunks": 1,
                                     "implementation": "linear_ce:chunk_tokens=64",
                                     "relative_l2": 1e-7, "ratio": 0.5})"));
  EXPECT_EQ(rows[1]["chunks"], 4);
  EXPECT_TRUE(rows[2]["relative_l2"].is_null());
}

TEST(ReportJson, MetricsHaveTheirReductions) {
  const Json trial = trial_to_json(sample_trial(1, 1, "fused"));
  EXPECT_EQ(trial["metric_reductions"],
            Json::parse(R"({"loss": "sum", "probs_ratio_max": "max"})"));
  EXPECT_THAT(keys_of(trial["metrics"]), keys_of(trial["metric_reductions"]));
}

TEST(ReportJson, BranchesAreAnObjectEvenWithoutAny) {
  TrialRecord trial = sample_trial(1, 1, "fused");
  EXPECT_EQ(trial_to_json(trial)["branches"],
            Json::parse(R"({"clipped_high": 0.125, "unclipped": 0.875})"));
  trial.branch_shares["unclipped"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(trial_to_json(trial)["branches"]["unclipped"].is_null());
  trial.branch_shares.clear();
  trial.metric_reductions.clear();
  EXPECT_EQ(trial_to_json(trial)["branches"], Json::object());
  EXPECT_EQ(trial_to_json(trial)["metric_reductions"], Json::object());
}

TEST(ReportJson, NumbersThatAreNotFiniteAreNull) {
  RunRecord run = sample_run();
  run.trials = {sample_nan()};
  const Json trial = run_to_json(run)["trials"][0];
  const Json& check = trial["checks"][1];
  EXPECT_TRUE(check["ratio"].is_null());
  EXPECT_EQ(check["passed"], false);
  EXPECT_TRUE(check["error_abs"].is_null());
  EXPECT_TRUE(check["worst"]["got"].is_null());
  EXPECT_EQ(check["worst"]["want"], -6.25);
  EXPECT_TRUE(trial["metrics"]["loss"].is_null());
  const std::string text = json_text(run_to_json(run));
  EXPECT_THAT(text, Not(HasSubstr("nan,")));
  EXPECT_THAT(text, Not(HasSubstr("Infinity")));
}

TEST(ReportJson, AnInfiniteRatioNeverPasses) {
  TrialRecord trial = sample_nan();
  trial.checks[1].passed = true;  // a promise that the record breaks
  EXPECT_EQ(trial_to_json(trial)["checks"][1]["passed"], false);
}

TEST(ReportJson, ValuesThatDoNotApplyAreNull) {
  const Json trial = trial_to_json(sample_trial(1, 1, "fused"));
  EXPECT_TRUE(trial["first_failed_rank"].is_null());
  EXPECT_TRUE(trial["checks"][0]["worst"].is_null());
  EXPECT_TRUE(trial["checks"][1]["worst"]["vocab_id"].is_null());
  EXPECT_EQ(trial["checks"][2]["worst"]["vocab_id"], 94);
  EXPECT_TRUE(trial["metrics"]["probs_ratio_max"].is_null());
  TrialRecord crashed = sample_trial(1, 1, "fused");
  crashed.first_failed_rank = 0;
  EXPECT_EQ(trial_to_json(crashed)["first_failed_rank"], 0);
}

TEST(ReportJson, BytesAreIntegersAndDoublesAreShort) {
  TrialRecord trial = sample_trial(1, 1, "fused");
  trial.memory[0].measured_peak_bytes = std::int64_t{1} << 52;
  const std::string text = json_text(trial_to_json(trial), -1);
  EXPECT_THAT(text, HasSubstr("\"measured_peak_bytes\":4503599627370496,"));
  EXPECT_THAT(text, HasSubstr("\"measured_allocations\":2,"));
  EXPECT_THAT(text, HasSubstr("\"scale\":0.1}"));
  EXPECT_THAT(text, HasSubstr("\"max_over_ranks_ns\":1234567"));
}

TEST(ReportJson, TwoRunsDifferOnlyInVolatileKeys) {
  const RunRecord first = sample_run();
  RunRecord second = first;
  second.started_utc = "2027-01-02T03:04:05Z";
  second.ended_utc = "2027-01-02T03:04:06Z";
  second.environment["host"]["cpu_model"] = "another model";
  for (TrialRecord& trial : second.trials.in_memory()) trial.details["gemm"] = "3 GFLOP/s";
  for (TrialRecord& trial : second.trials.in_memory()) {
    for (PhaseTimeRecord& time : trial.times) time.max_over_ranks_ns += 17;
  }
  const Json a = run_to_json(first);
  const Json b = run_to_json(second);
  EXPECT_NE(json_text(a), json_text(b));
  EXPECT_EQ(json_text(without_volatile_keys(a)), json_text(without_volatile_keys(b)));

  second.trials[0].checks[0].ratio = 0.126;
  EXPECT_NE(json_text(without_volatile_keys(run_to_json(second))),
            json_text(without_volatile_keys(a)));
}

TEST(ReportJson, VolatileKeysExist) {
  RunRecord run = sample_run();
  run.timings = sample_bench_run().timings;
  run.meter = sample_bench_run().meter;
  run.ab = sample_ab_run().ab;
  run.hunts.emplace_back();
  const std::string text = json_text(run_to_json(run));
  for (const std::string& key : report_format().volatile_keys)
    EXPECT_THAT(text, HasSubstr('"' + key + '"'));
}

TEST(ReportJson, BytesThatAreNotUtf8AreReplaced) {
  RunRecord run = sample_run();
  run.arguments.push_back("file-\xff\xfe");
  const std::string text = json_text(run_to_json(run));
  EXPECT_THAT(Json::parse(text)["run"]["arguments"][3].get<std::string>(), HasSubstr("file-"));
}

TEST(ReportJson, HoldsTheStateOfEveryRank) {
  const Json trial = trial_to_json(sample_cut_short(TrialStatus::timeout));
  ASSERT_EQ(trial["rank_states"].size(), 2u);
  EXPECT_EQ(trial["rank_states"][0]["state"], "waiting");
  EXPECT_EQ(trial["rank_states"][0]["phase"], "forward");
  EXPECT_EQ(trial["rank_states"][0]["collectives"].back(),
            "all_reduce sum of 8 f32, call #5 of 'tp', entered");
  EXPECT_EQ(trial["rank_states"][1]["phase"], nullptr);
  EXPECT_EQ(trial_to_json(sample_trial(1, 1, "fused"))["rank_states"], Json::array());
}

TEST(Record, WorstValuesAndCounts) {
  const TrialRecord trial = sample_trial(2, 4, "fused");
  EXPECT_EQ(trial.max_ratio(), 0.5);
  EXPECT_EQ(trial.max_peak_bytes(), 4096);
  EXPECT_EQ(trial.total_calls(), 4);
  EXPECT_EQ(trial.total_payload_bytes(), 156 + 112);
  EXPECT_EQ(sample_nan().max_ratio(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(TrialRecord().max_ratio(), 0);

  const auto counts = sample_run().counts_by_status();
  EXPECT_EQ(counts.size(), trial_statuses().size());
  EXPECT_EQ(counts.at("passed"), 1);
  EXPECT_EQ(counts.at("failed"), 2);
  EXPECT_EQ(counts.at("skipped"), 2);
  EXPECT_EQ(counts.at("timeout"), 0);
}

TEST(Record, OnlyARankCutsATrialShort) {
  std::vector<std::string> cut_short;
  for (const TrialStatus status : trial_statuses()) {
    if (was_cut_short(status)) cut_short.emplace_back(name(status));
  }
  EXPECT_THAT(cut_short, ElementsAre("error", "timeout", "crashed", "out_of_memory"));
}

}  // namespace
}  // namespace lossgrid
