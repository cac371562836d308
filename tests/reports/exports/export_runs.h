// SPDX-License-Identifier: Apache-2.0
// Runs that every exporter has to take: empty ones, each status of trials and timings, a run that
// died, mutants, and text that is markup somewhere.
#pragma once

#include <map>
#include <string>

#include <fmt/format.h>

#include "reports/exports/exporter.h"
#include "sample_run.h"

namespace lossgrid {

/// Returns a run with a trial of each kind: passed, failed, skipped, crashed.
inline RunRecord small_run() {
  RunRecord run = sample_run();
  run.environment["tool"]["git_revision"] = "abc1234";
  run.trials = {sample_trial(2, 1, "fused"), sample_failure(), sample_skip(1),
                sample_cut_short(TrialStatus::crashed)};
  run.trials[0].checks.resize(2);
  run.trials[1].checks.erase(run.trials[1].checks.begin() + 1);
  run.trials[1].invariants.clear();
  run.trials[1].determinism = {{"run_to_run", "different_bits", true, "grad_logits"},
                               {"packing", "different_bits", false, ""}};
  return run;
}

/// Text with control characters, markup, table bars, and bytes that are not UTF-8.
inline constexpr const char* kHostile = "a\x1b[31m\n\r\x07| <b> \"'`%, \\ \xc2\x9b \xff z";

/// Returns a run whose texts are all kHostile; files that are read back are always UTF-8.
inline RunRecord hostile_run() {
  RunRecord run = small_run();
  run.command = run.suite = run.arguments[0] = kHostile;
  run.environment["tool"]["version"] = kHostile;
  run.environment["host"]["cpu_model"] = kHostile;
  for (TrialRecord& trial : run.trials.in_memory()) {
    trial.id = fmt::format("{}|tp1cp1|x|cpu", kHostile);
    trial.implementation = trial.reproduce = kHostile;
    if (trial.status != TrialStatus::passed) trial.reason = kHostile;
    for (CheckRecord& check : trial.checks) check.name = kHostile;
    for (DeterminismRecord& bits : trial.determinism) bits.name = bits.detail = kHostile;
  }
  TimingRecord timing = sample_timing();
  timing.case_name = timing.case_text = timing.grid = timing.cache = kHostile;
  for (TimingRow& row : timing.rows) row.implementation = row.phase = row.ceiling = kHostile;
  timing.rows[0].status = TimingStatus::failed;
  timing.rows[0].reason = kHostile;
  run.timings = {timing};
  return run;
}

/// Returns a run that was killed in the middle of its second trial.
inline RunRecord cut_off_run() {
  RunRecord run = sample_run();
  run.trials = {sample_trial(1, 1, "fused")};
  run.status = "partial";
  run.exit_code = 0;
  run.ended_utc.clear();
  run.begun_id = "vocab=96 lens=5+8|tp2cp1|fused|cpu";
  run.begun_reproduce = "lossgrid run --impl fused --grid tp2cp1 --case \"vocab=96 lens=5+8\"";
  run.planned = PlannedWork{8, 2};
  return run;
}

/// Returns timings with one row of each status, the timed one last.
inline RunRecord bench_run() {
  RunRecord run = sample_bench_run();
  run.trials = {sample_trial(1, 1, "fused")};
  TimingRecord& timing = run.timings[0];
  const auto spoil = [&](std::size_t row, TimingStatus status, const std::string& reason) {
    timing.rows[row].status = status;
    timing.rows[row].reason = reason;
  };
  spoil(0, TimingStatus::unstable, "9 distinct samples");
  spoil(1, TimingStatus::above_ceiling, "131 % of read");
  spoil(2, TimingStatus::failed, "loss: ratio 2");
  timing.status = TimingStatus::failed;
  timing.reason = "loss: ratio 2";
  for (TimingRow& row : timing.rows) row.time = sample_time(row.time.median_ns, 3);
  run.meter.push_back({"copy", false, 1, 2.5, "B", "too many"});
  return run;
}

inline std::map<std::string, RunRecord> export_runs() {
  std::map<std::string, RunRecord> runs{{"no record", RunRecord()},        {"small", small_run()},
                                        {"cut off", cut_off_run()},        {"bench", bench_run()},
                                        {"mutants", sample_mutants_run()}, {"nan", sample_run()}};
  for (const TrialStatus status : trial_statuses()) {
    RunRecord run = sample_run();
    run.trials = {sample_cut_short(status)};
    if (status == TrialStatus::passed) run.trials[0].reason.clear();
    runs["trial " + std::string(name(status))] = run;
  }
  for (const TimingStatus status :
       {TimingStatus::skipped, TimingStatus::timeout, TimingStatus::error}) {
    RunRecord run = sample_bench_run();
    run.timings[0].status = status;
    run.timings[0].reason = "why";
    run.timings[0].rows.clear();
    runs["timing " + std::string(name(status))] = run;
  }
  RunRecord markup = small_run();
  markup.suite = "a-->b|c";
  for (TrialRecord& trial : markup.trials.in_memory()) {
    trial.id = "a<b>&\"c\"|tp1cp1|`x`::%|cpu";
    trial.implementation = "`x`::%,\n::error::y\\";
    if (trial.status != TrialStatus::passed) {
      trial.reason = "]]> | \x01\x1b[31m \xef\xbf\xbe <!-- \n::error::z";
    }
  }
  runs["markup"] = markup;
  RunRecord compared = sample_ab_run();  // regressed, inconclusive, and one that may be wrong
  compared.exit_code = 11;
  compared.ab.resize(3, compared.ab[0]);
  compared.ab[1].phase = "backward";
  compared.ab[1].verdict = AbVerdict::inconclusive;
  compared.ab[2].b = compared.ab[2].a;
  runs["ab"] = compared;
  // The same trial and timing twice.
  RunRecord twice = bench_run();
  twice.trials.push_back(twice.trials[0]);
  twice.timings.push_back(twice.timings[0]);
  runs["twice"] = twice;
  return runs;
}

inline std::string exported(const std::string& format, const RunRecord& run) {
  return find_exporter(format).text(run);
}

}  // namespace lossgrid
