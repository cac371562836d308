// SPDX-License-Identifier: Apache-2.0
// Record of a run, as plain values: its trials, timings, comparisons and mutants, and the facts
// around them. Knows nothing of devices or communicators. The JSON form is in report_json.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/stage_clock.h"
#include "reports/record/ab_record.h"
#include "reports/record/hunt_record.h"
#include "reports/record/timing_record.h"
#include "reports/record/trial_list.h"

namespace lossgrid {

/// Name and version of the format. A program refuses any other version.
inline constexpr const char* kReportFormat = "lossgrid.report/1";

/// A mutant and its fate.
struct MutantRecord {
  std::string name;
  std::string catalogue_id;  // "M4", empty when it has none
  std::string what;
  bool is_control = false;
  bool rejected = false;
  std::string rejected_by_case;
  std::string rejected_by_grid;
  std::vector<std::string> rejected_by_checks;
  std::string reproduce;
  std::int64_t trials = 0;
  std::int64_t not_counted = 0;  // failed trials that prove nothing about the mistake
  std::string reason;            // that no trial ran, or that the first of these does not count
  std::vector<std::string> left_out;  // cases that a loaded function fails itself

  /// Returns "not_run", or how the trials ended: "rejected", "survived" (a mutant), "accepted" (a
  /// control).
  std::string_view verdict() const {
    if (trials == 0) return "not_run";
    if (rejected) return "rejected";
    return is_control ? "accepted" : "survived";
  }
};

template <typename A>
void fields(A& a, MutantRecord& mutant) {
  a.record("mutant",
           "A deliberately wrong implementation, or a right one done another way (a control), and "
           "its fate.");
  a("name", mutant.name, "Name of the implementation, as in --impl.", {.nonempty = true});
  a("catalogue_id", mutant.catalogue_id,
    "Its number in the catalogue of mutants; null when it has none.", {.null = true});
  a("what", mutant.what, "Its mistake; of a control, the step that is done another way.");
  a("is_control", mutant.is_control, "Right, and must not be rejected.");
  a("trials", mutant.trials, "Number of trials that ran until it was rejected.");
  a("rejected", mutant.rejected, "True if a trial failed.");
  const auto rejection = [&] {
    a("case", mutant.rejected_by_case, "Name or text of the case.");
    a("grid", mutant.rejected_by_grid, "Grid.");
    a("checks", mutant.rejected_by_checks, "The checks that failed.");
  };
  a.object_if(mutant.rejected, "rejected_by",
              "The first trial that failed; null when nothing rejected it.", {}, rejection);
  a("reproduce", mutant.reproduce, "A command line that runs the rejecting trial again.",
    {.null = true});
  a.computed(
      "verdict", std::string(mutant.verdict()),
      "not_run: nothing in the suites applies to it. survived: a wrong implementation passes. "
      "accepted: a control passes.",
      {.one_of = "rejected survived accepted not_run"});
  a("not_counted", mutant.not_counted,
    "Failed trials that do not count: its implementation fails them unchanged, too, or the check "
    "that the catalogue names is not among those that failed.");
  a("reason", mutant.reason,
    "Reason for which no trial ran, or for which the first of these does not count; null when "
    "there is none.",
    {.null = true});
  a("left_out", mutant.left_out,
    "Of the control of a loaded function: cases that the function fails unchanged; its mutants do "
    "not run on them.");
}

/// Numbers of mutants that a suite rejects. Those to which nothing in it applies count apart.
struct MutationScore {
  std::int64_t rejected = 0;
  std::int64_t total = 0;
  std::int64_t controls_accepted = 0;
  std::int64_t controls_total = 0;
  std::int64_t not_run = 0;
};

template <typename A>
void fields(A& a, MutationScore& score) {
  a.record("score", "The share of mutants that the suite rejects.");
  a("rejected", score.rejected, "Mutants rejected.");
  a("total", score.total, "Mutants that ran.");
  a("controls_accepted", score.controls_accepted, "Controls that passed.");
  a("controls_total", score.controls_total, "Controls that ran.");
  a("not_run", score.not_run, "Mutants and controls to which nothing in the suites applies.");
}

/// Amount of work that a run sets out to do.
struct PlannedWork {
  std::int64_t trials = 0;
  std::int64_t timings = 0;
};

template <typename A>
void fields(A& a, PlannedWork& planned) {
  a("trials", planned.trials, "Number of trials.");
  a("timings", planned.timings, "Number of timings.");
}

struct RunRecord {
  std::string command;
  std::vector<std::string> arguments;
  std::string suite;
  std::string started_utc;
  std::string ended_utc;
  std::string status = "complete";
  int exit_code = 0;
  std::int64_t started_ns = 0;  // on the steady clock
  std::int64_t wall_ns = 0;     // up to the end, without the report's last writing; 0: not known
  StageTimes stages;            // parts of wall_ns
  nlohmann::ordered_json environment;
  TrialList trials;
  std::vector<MutantRecord> mutants;
  std::vector<TimingRecord> timings;
  std::vector<MeterRecord> meter;
  std::vector<AbRecord> ab;
  std::vector<HuntRecord> hunts;
  // For a run that ended in the middle: the trial or timing that had begun, and the command line
  // that runs it again; empty where it has none, or nothing had begun.
  std::string begun_id;
  std::string begun_reproduce;
  // For a run that ended in the middle: all that it had set out to do.
  std::optional<PlannedWork> planned = {};

  /// Every status, zeros included.
  std::map<std::string, std::int64_t> counts_by_status() const;
  MutationScore mutation_score() const;
};

/// Description of a stage in reports.
const char* description(Stage stage);

/// The first keys of a report, and the first line of a partial file.
template <typename A>
void header_fields(A& a, RunRecord& run) {
  constexpr const char* kUtc =
      "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z$";
  a.computed("schema", kReportFormat, "Name and version of this format.",
             {.one_of = kReportFormat});
  const auto stages = [&] {
    for (std::size_t k = 0; k < kStages; ++k) {
      const auto stage = static_cast<Stage>(k);
      a(name(stage).data(), run.stages[stage], description(stage));
    }
    a.computed(
        "other", std::max<std::int64_t>(0, run.wall_ns - run.stages.total()),
        [&](std::int64_t ns) { run.wall_ns = run.stages.total() + ns; },
        "The rest of the time of the run.");
  };
  a.object("run", "Command line of the program, and its end.", {}, [&] {
    a("command", run.command, "The subcommand.", {.one_of = "run bench mutants replay ab hunt"});
    a("arguments", run.arguments, "The command line, without the program's name.");
    a("suite", run.suite, "Name of the suite; empty when cases were given on the command line.");
    a("started_utc", run.started_utc, "Time at which the run began.",
      {.pattern = kUtc, .null = true, .varies = true});
    a("ended_utc", run.ended_utc, "Time at which the run ended.",
      {.pattern = kUtc, .null = true, .varies = true});
    a("status", run.status, "complete: every trial was reached; partial: the run stopped before.",
      {.one_of = "complete partial"});
    a("exit_code", run.exit_code,
      "Exit code of the process: the worst of the run, or 128 + the signal that ended it early.",
      {.one_of = "0 10 11 12 13 14 15 64 65 77 129 130 143"});
    a.object_if(run.wall_ns != 0, "stages_ns",
                "Parts of the time of the run, by stage; of ranks that run side by side the "
                "longest. null while it runs.",
                {.varies = true}, stages);
  });
  a("environment", run.environment,
    "Facts about the build and the machine that help to read the results.");
}

/// Lists of a report beside its trials.
template <typename A>
void list_fields(A& a, RunRecord& run) {
  a("timings", run.timings,
    "Implementations timed in turn, one for every case, grid and state of the cache that asked for "
    "it.");
  a("meter", run.meter,
    "Results of the meter when it measured things that are known beforehand; of runs that time.");
  a("ab", run.ab,
    "A/B comparisons, one for every phase of every case, grid and state of the cache; only of the "
    "command ab.",
    {.left_out = run.command != "ab" && run.ab.empty(), .varies = true});
  a("hunts", run.hunts, "Only of the command hunt: one hunt.", {.left_out = run.hunts.empty()});
  a("mutants", run.mutants, "Only of the command mutants.", {.left_out = run.command != "mutants"});
}

}  // namespace lossgrid
