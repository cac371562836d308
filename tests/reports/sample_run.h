// SPDX-License-Identifier: Apache-2.0
// Sample runs for tests: every field of a record filled, with a pass, a failure and a skip.
#pragma once

#include <filesystem>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "reports/record/record.h"

namespace lossgrid {

inline TrialRecord sample_trial(int tp, int cp, const std::string& implementation, int dp = 1) {
  std::string grid = "tp" + std::to_string(tp) + "cp" + std::to_string(cp);
  if (dp > 1) grid += "dp" + std::to_string(dp);
  TrialRecord trial;
  trial.case_name = "C0";
  trial.id = "vocab=96 lens=5+8|" + grid + "|" + implementation + "|cpu";
  trial.case_parameters = {{"objective", "nll"}, {"lens", "5+8"}, {"vocab", 96}, {"scale", 0.1}};
  trial.tp = tp;
  trial.cp = cp;
  trial.dp = dp;
  trial.implementation = implementation;
  trial.status = TrialStatus::passed;
  trial.tokens = 13;
  trial.padded_tokens = 16;
  trial.valid_tokens = 7;
  trial.microbatches = 3;
  trial.metrics = {{"loss", 6.4}, {"probs_ratio_max", std::nullopt}};
  trial.metric_reductions = {{"loss", "sum"}, {"probs_ratio_max", "max"}};
  trial.branch_shares = {{"clipped_high", 0.125}, {"unclipped", 0.875}};
  trial.checks = {
      {"loss", true, 0.125, 1e-9, 8e-9, std::nullopt, 1, 0},
      {"logprobs", true, 0.25, 1e-8, 4e-8, WorstElement{1, 1, 3, -1, -6.5, -6.25}, 7, 0},
      {"grad_logits", true, 0.5, 1e-8, 2e-8, WorstElement{0, 1, 3, 94, 0.1, 0.1}, 672, 0},
      {"grad_logits_bias", true, 0.0625, 1e-9, 1.6e-8, std::nullopt, 1, 0}};
  trial.invariants = {{"same_bits_on_all_ranks", "passed", ""},
                      {"shift_invariance", "not_run", "an offset would overflow"}};
  trial.determinism = {{"run_to_run", "same_bits", true, ""},
                       {"tp_size", "not_compared", false, ""}};
  for (const std::string phase : {"plan", "forward", "backward"}) {
    const std::int64_t bytes = phase == "backward" ? 2048 * tp : 1024;
    trial.memory.push_back({0, phase, bytes, bytes, bytes + 4096, 2, {{"logits", 4096}}});
    trial.times.push_back({phase, 1234567});
  }
  trial.memory.back().device_used_bytes = 8192;
  trial.memory.back().device_other_bytes = -4096;
  trial.communication = {{0, "forward", "tp", "all_reduce", 3, 3, 156, 156},
                         {0, "forward", "cp", "all_gather", 1, 1, 28 * cp, 28 * cp}};
  if (dp > 1) trial.communication.push_back({0, "batch", "dp", "all_reduce", 2, 2, 24, 24});
  trial.fingerprints = {{"loss", "00ff00ff00ff00ff"}};
  trial.reproduce =
      "lossgrid run --impl " + implementation + " --grid " + grid + " --case \"vocab=96 lens=5+8\"";
  return trial;
}

/// Returns a trial of an lm_head whose rows were taken in `chunks` chunks.
inline TrialRecord sample_linear_trial(std::int64_t chunks, double relative_l2, double ratio) {
  TrialRecord trial =
      sample_trial(2, 1, "linear_ce:chunk_tokens=" + std::to_string(chunks > 0 ? 64 / chunks : 64));
  trial.sp = true;
  trial.id = "vocab=96 hidden=8|tp2cp1sp|" + trial.implementation + "|cpu";
  trial.case_parameters["hidden"] = 8;
  trial.chunks = chunks;
  trial.details = {{"gemm", "a library"}};
  trial.relative_l2 = {{"grad_hidden", 1e-7}, {"grad_weight", relative_l2}};
  trial.checks = {{"grad_hidden", true, 0.5, 1e-8, 2e-8, std::nullopt, 8, 0},
                  {"grad_weight", true, ratio, 1e-8, 2e-8, std::nullopt, 768, 0}};
  for (PhaseTimeRecord& time : trial.times) time.predicted_flops = 12288;
  return trial;
}

inline TrialRecord sample_failure() {
  TrialRecord trial = sample_trial(2, 4, "fused");
  trial.status = TrialStatus::failed;
  trial.reason = "grad_logits: ratio 1.2e+04";
  trial.explanation = {"grad_logits is 2.000 x the truth, which tp = 2 would explain"};
  trial.gradient_scale = {{"grad_logits", 2.0}};
  CheckRecord& loss = trial.checks[0];
  loss.passed = false;
  loss.ratio = 3;
  loss.beyond_bound = 1;
  CheckRecord& gradient = trial.checks[2];
  gradient.passed = false;
  gradient.ratio = 12345;
  gradient.worst = WorstElement{2, 1, 17, 94, -0.25, -0.125};
  gradient.beyond_bound = 3;
  trial.cost_mismatches = {"memory"};
  return trial;
}

inline TrialRecord sample_nan() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  TrialRecord trial = sample_trial(1, 2, "fused");
  trial.status = TrialStatus::failed;
  trial.reason = "logprobs: got nan";
  trial.metrics["loss"] = nan;
  trial.checks[1] = {"logprobs", false, std::numeric_limits<double>::infinity(),
                     nan,        1e-8,  WorstElement{0, 0, 2, -1, nan, -6.25},
                     7,          1};
  return trial;
}

/// Returns a trial that rank 1 ended.
inline TrialRecord sample_cut_short(TrialStatus status) {
  TrialRecord trial;
  trial.id = "vocab=96 lens=5+8|tp2cp1|fused|cpu";
  trial.case_name = "C0";
  trial.case_parameters = sample_trial(1, 1, "x").case_parameters;
  trial.tp = 2;
  trial.implementation = "fused";
  trial.status = status;
  trial.reason = "rank 1: it ended";
  trial.first_failed_rank = 1;
  if (!was_cut_short(status)) return trial;
  trial.ranks = {
      {0,
       "waiting",
       "forward",
       "rank 1 failed: it ended",
       {"barrier, call #1 of 'world', done", "all_reduce sum of 8 f32, call #5 of 'tp', entered"}},
      {1, "silent", "", "", {}}};
  return trial;
}

inline TrialRecord sample_skip(int cp) {
  TrialRecord trial;
  trial.id = "vocab=96 lens=5+8|tp1cp" + std::to_string(cp) + "|cp_local|cpu";
  trial.case_name = "C0";
  trial.case_parameters = sample_trial(1, 1, "x").case_parameters;
  trial.cp = cp;
  trial.implementation = "cp_local";
  trial.status = TrialStatus::skipped;
  trial.reason = "cp_local needs cp > 1";
  return trial;
}

inline RunRecord sample_run() {
  RunRecord run;
  run.command = "run";
  run.arguments = {"run", "--suite", "smoke"};
  run.suite = "smoke";
  run.started_utc = "2026-01-02T03:04:05Z";
  run.ended_utc = "2026-01-02T03:04:15.5Z";
  run.exit_code = 10;
  run.environment["tool"] = {{"version", "0.1.0"}};
  run.environment["host"] = {{"cpu_model", "a model"}, {"cpus", 2}};
  run.environment["variables"] = nlohmann::ordered_json::object();
  run.trials = {sample_trial(1, 1, "fused"), sample_failure(), sample_nan(), sample_skip(1),
                sample_skip(2)};
  return run;
}

inline RunRecord sample_mutants_run() {
  RunRecord run = sample_run();
  run.command = "mutants";
  run.trials.clear();
  for (int i = 0; i < 3; ++i) {
    MutantRecord mutant;
    mutant.name = "mutant_" + std::to_string(i);
    mutant.catalogue_id = i == 0 ? "M4" : "";
    mutant.what = "the gradient is multiplied by cp";
    mutant.trials = 4;
    mutant.rejected = true;
    mutant.rejected_by_case = "C3";
    mutant.rejected_by_grid = "tp1cp2";
    mutant.rejected_by_checks = {"grad_logits", "grad_logits_bias"};
    mutant.reproduce = "lossgrid run --impl " + mutant.name;
    run.mutants.push_back(mutant);
  }
  MutantRecord control;
  control.name = "reversed_sum";
  control.what = "sums from the end";
  control.is_control = true;
  control.trials = 12;
  run.mutants.push_back(control);
  return run;
}

inline TimeSummary sample_time(std::int64_t median_ns, std::size_t samples = 11) {
  TimeSummary time;
  for (std::size_t k = 0; k < samples; ++k) {
    const auto step = static_cast<std::int64_t>(1000 * k);
    time.samples_ns.push_back(k % 2 == 0 ? median_ns + step : median_ns - step);
  }
  time.median_ns = median_ns;
  time.p20_ns = median_ns - 5000;
  time.p80_ns = median_ns + 6000;
  time.stderr_ratio = 0.0025;
  return time;
}

inline TimingRow sample_timing_row(const std::string& implementation, const std::string& phase,
                                   std::int64_t median_ns) {
  TimingRow row;
  row.implementation = implementation;
  row.phase = phase;
  row.time = sample_time(median_ns);
  row.speedup = 4e6 / static_cast<double>(median_ns);
  row.rank_bytes = 1 << 20;
  row.bytes_per_second = 2e9;
  row.tokens_per_second = 12'345;
  row.ceiling = "read";
  row.ceiling_ratio = 0.5;
  row.communication_ratio = 0.125;
  row.rank_times = {{0, median_ns, 400'000, median_ns - 400'000, {median_ns}, {400'000}},
                    {1, median_ns, 100'000, median_ns - 100'000, {median_ns}, {100'000}}};
  row.straggler = Straggler{1, median_ns - 100'000, 300'000};
  row.kernel_launches = 7;
  row.host_synchronisations = 2;
  return row;
}

/// Returns a timing of two implementations, of three phases and of one, and one that is skipped.
inline TimingRecord sample_timing() {
  TimingRecord record;
  record.case_name = "pack";
  record.case_text = "lens=64 vocab=512";
  record.grid = "tp2cp1";
  record.cache = "hot";
  record.timer = "steady_clock";
  record.baseline = "per_sequence";
  record.cores = 4;
  record.threads_per_rank = 2;
  record.last_level_cache_bytes = 1 << 25;
  record.order_seed = 1;
  record.min_samples = 10;
  record.max_seconds = 30;
  record.target_stderr_ratio = 0.01;
  record.warm_up_rounds = 2;
  record.rounds = 11;
  record.stopped_by = "target";
  record.tokens = 64;
  record.rows = {sample_timing_row("per_sequence", "forward", 1'500'000),
                 sample_timing_row("per_sequence", "backward", 2'500'000),
                 sample_timing_row("per_sequence", "forward_backward", 4'000'000),
                 sample_timing_row("fused:chunk_tokens=7", "forward_backward", 2'000'000)};
  record.skipped = {{"linear_ce", "takes hidden states; the case starts from logits"}};
  for (const char* name : {"read", "copy", "update"}) {
    record.ceilings.push_back({name, sample_time(1'000'000), 1 << 16, 0, 1.5e10});
  }
  record.ceiling_details = "plain";
  record.all_reduce = {{"tp", 2, 2500, 1e9}};
  record.gpus = {{0, "", 1905, 1980, 3201, 3201, 699.5, 66, 1, {"sw_power_cap"}},
                 {1, "no library", 0, 0, 0, 0, 0, 0, 0, {}}};
  return record;
}

inline RunRecord sample_bench_run() {
  RunRecord run = sample_run();
  run.command = "bench";
  run.trials.clear();
  run.timings = {sample_timing()};
  run.meter = {{"sleep", true, 5e6, 5.1e6, "ns", "shortest of 5"}};
  return run;
}

inline RunRecord sample_ab_run() {
  RunRecord run = sample_run();
  run.command = "ab";
  run.trials.clear();
  AbRecord record;
  record.case_title = "pack: lens=64 vocab=512";
  record.grid = "tp2cp1";
  record.cache = "hot";
  record.phase = "forward";
  record.a = "fused";
  record.b = "probe/slowed:percent=10";
  record.ratio = {1.1, 1.09, 1.11, 0.99365};
  record.launch_ratios = {1.08, 1.09, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.11, 1.12};
  record.pairs = 30;
  record.margin = 0.03;
  record.seed = 1;
  record.verdict = AbVerdict::regressed;
  run.ab = {record};
  return run;
}

/// Empty folder of the running test, removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        std::filesystem::temp_directory_path() / ("lossgrid-" + std::to_string(::getpid()) + "-" +
                                                  test->test_suite_name() + "-" + test->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace lossgrid
