// SPDX-License-Identifier: Apache-2.0
// What `run` and `bench` do: trials, then timings, one report of both. A meter that fails its own
// test stops the timings before they begin.
#include <algorithm>
#include <optional>

#include "harness/cli/progress.h"
#include "harness/cli/resume.h"
#include "harness/cli/session.h"
#include "harness/cli/suite_flags.h"
#include "harness/comm/nccl_transport.h"
#include "harness/device/rank_threads.h"
#include "harness/runner/timing.h"
#include "reports/report_writer.h"

namespace lossgrid {
namespace {

PlannedSteps plan_steps(const std::vector<Suite>& suites, const SuiteModes& modes) {
  PlannedSteps planned;
  for (const Suite& suite : suites) {
    const std::size_t places = suite.cases.size() * suite.grids.size();
    if (modes.verify) planned.trials += places * suite.implementations.size();
    if (!suite.timing) continue;
    const std::size_t timings = places * suite.timing->caches.size();
    planned.timings += timings;
    planned.timing_budget_s += static_cast<double>(timings) * suite.timing->max_seconds;
  }
  return planned;
}

/// On every process: all time, or none.
bool is_right_everywhere(const std::vector<MeterRecord>& meter, const Ranks& ranks) {
  return ranks.first_text(exit_code_of(meter) == ExitCode::ok ? "" : "wrong").empty();
}

/// The trials that a run did not come to behind one that had to be its last.
void add_not_run(const std::vector<Suite>& suites, RunRecord& record) {
  const bool hung = record.trials.back().status == TrialStatus::timeout;
  const char* reason =
      hung ? "a rank of an earlier trial hangs" : "a rank of an earlier trial has lost its GPU";
  std::vector<TrialRecord> planned = planned_trials(suites);
  for (std::size_t k = record.trials.size(); k < planned.size(); ++k) {
    planned[k].reason = reason;
    record.trials.push_back(std::move(planned[k]));
  }
}

}  // namespace

AfterFailure after_failure(const SuiteFlags& flags) {
  return flags.no_retry ? AfterFailure::keep : AfterFailure::run_again;
}

ExitCode code_of(const RunRecord& record, const SuiteModes& modes) {
  ExitCode code = exit_code_of(record.meter);
  if (modes.verify) code = worst(code, exit_code_of(record.trials));
  if (record.timings.empty()) return code;
  const ExitCode timing = exit_code_of(record.timings);
  return modes.verify && timing == ExitCode::nothing_ran ? code : worst(code, timing);
}

void print_results(const RunRecord& record, const SuiteFlags& flags, TableRows rows) {
  const TextStyle style = stdout_style();
  if (!flags.quiet) {
    fmt::print("{}{}{}", format_trials_table(record, rows, style),
               format_memory_table(record, style), format_chunk_table(record, style));
    fmt::print("{}", format_timing_table(record.timings, style));
  }
  fmt::print("{}", format_meter(record.meter));
  fmt::print("{}", format_summary(record, style));
}

ExitCode run_requested(const std::string& command, const SuiteFlags& flags,
                       const TimingFlags& timing, const SuiteModes& modes, TableRows rows) {
  const std::optional<Fault> fault = requested_fault(flags.inject, flags.backend.backend);
  const std::vector<Suite> suites = requested_suites(command, flags, timing, modes);
  const Ranks ranks = start_ranks(flags.transport);
  requested_backend(flags.backend, ranks);
  require_runnable(suites, flags.max_ranks, ranks);
  set_threads_per_rank(flags.threads_per_rank);
  RunOptions options;
  options.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_s * 1000));
  options.fault = fault;
  options.ranks = ranks;
  if (!flags.resume.empty())
    options.finished = read_finished(flags.resume, command, after_failure(flags), ranks);

  options.recording = open_recording(flags.recording, ranks);

  RunRecord record = begin_run(command, flags.suite);
  if (const auto job = ranks.environment(); !job.is_null()) record.environment["mpi"] = job;
  if (ranks.has_nccl() && why_no_nccl().empty()) record.environment["nccl"] = nccl_version();
  if (const auto gpus = describe_devices(suites.front().backend); !gpus.empty()) {
    record.environment["gpus"] = gpus;
  }
  const PlannedSteps planned = plan_steps(suites, modes);
  record.planned = PlannedWork{static_cast<std::int64_t>(planned.trials),
                               static_cast<std::int64_t>(planned.timings)};
  std::optional<ReportWriter> writer = open_report(flags.report, record, ranks);
  if (writer) {
    keep_finished(options.finished, *writer);
    options.begins = [&writer](const std::string& id, const std::string& reproduce) {
      writer->begin(id, reproduce);
    };
  }

  bool must_end = false;
  {
    Progress progress(command, planned, progress_stream(flags.quiet || !ranks.reports()));
    ProblemCache problems;
    if (modes.verify) {
      must_end = run_suites(suites, options, problems, [&](const TrialRecord& trial) {
        progress.finish_trial(
            fmt::format("{} {} {}", trial.case_name, trial.grid(), trial.implementation),
            trial.status == TrialStatus::failed || was_cut_short(trial.status));
        if (writer && !options.finished.contains(trial.id)) writer->add(trial);
        record.trials.push_back(trial);
        return true;
      });
      if (must_end) add_not_run(suites, record);
    }
    const bool timed = std::any_of(suites.begin(), suites.end(),
                                   [](const Suite& suite) { return suite.timing.has_value(); });
    if (timed && !must_end) record.meter = test_meter();
    if (timed && !must_end && is_right_everywhere(record.meter, ranks)) {
      options.fault = fault_behind(planned.trials, fault);
      must_end = time_suites(suites, options, problems, [&](const TimingRecord& found) {
        progress.finish_timing(fmt::format("{} {} {}", found.case_name, found.grid, found.cache),
                               found.max_seconds, found.status >= TimingStatus::above_ceiling);
        if (writer && !options.finished.contains(found.id())) writer->add(found);
        record.timings.push_back(found);
      });
    }
  }
  const bool missed = !must_end && has_missed(fault, ranks);
  const ExitCode code = missed ? ExitCode::usage : code_of(record, modes);
  end_run(record, code, !must_end);
  if (writer) writer->finish(record);
  if (ranks.reports()) print_results(record, flags, rows);
  if (writer) fmt::print("report: {}\n", writer->path());
  finish_recording(options.recording.get(), ranks, must_end);
  if (must_end) leave_at_once(code);
  if (missed) refuse_missed(flags.inject);
  return code;
}

}  // namespace lossgrid
