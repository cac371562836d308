// SPDX-License-Identifier: Apache-2.0
// What `run` and `bench` do: trials, then timings, one report of both. A meter that fails its own
// test stops the timings before they begin.
#include <algorithm>
#include <functional>
#include <optional>

#include "harness/cli/early_end.h"
#include "harness/cli/output.h"
#include "harness/cli/progress.h"
#include "harness/cli/resume.h"
#include "harness/cli/session.h"
#include "harness/cli/suite_flags.h"
#include "harness/comm/nccl/nccl_transport.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/runner/timing/timing.h"
#include "reports/record/report_writer.h"

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
  return !ranks.agree_on_any(exit_code_of(meter) != ExitCode::ok);
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
    print_text(format_trials_table(record, rows, style) + format_memory_table(record, style) +
                   format_chunk_table(record, style) + format_timing_table(record.timings, style),
               style);
  }
  print_text(format_meter(record.meter));
  print_text(format_summary(record, style), style);
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
  if (writer) keep_finished(options.finished, *writer);

  const auto write_report = [&](ExitCode code, bool is_complete) {
    end_run(record, code, is_complete);
    if (writer) writer->finish(record);
  };
  const auto print_report = [&](const RecordingEnd& recorded) {
    if (ranks.reports()) print_results(record, flags, rows);
    if (writer) print("report: {}\n", writer->path());
    if (ranks.reports()) print_recording(options.recording.get(), recorded);
  };
  std::string in_progress;  // the id of a trial or timing
  const auto report_interrupted = [&](ExitCode code) {
    if (modes.verify) add_interrupted(planned_trials(suites), in_progress, record.trials);
    const RecordingEnd recorded = close_recording(options.recording.get(), ranks, true);
    write_report(code, false);
    print_report(recorded);
    if (writer) print("continue: {}\n", resume_line(writer->path()));
  };
  std::optional<EarlyEnd> early_end;
  early_end.emplace(ranks.reports() ? report_interrupted : std::function<void(ExitCode)>());
  options.begins = [&](const std::string& id, const std::string& reproduce) {
    early_end->step([&] {
      in_progress = id;
      if (writer) writer->begin(id, reproduce);
    });
  };

  bool must_end = false;
  {
    Progress progress(command, planned, progress_stream(flags.quiet || !ranks.reports()));
    ProblemCache problems;
    if (modes.verify) {
      must_end = run_suites(suites, options, problems, [&](const TrialRecord& trial) {
        progress.finish_trial(
            fmt::format("{} {} {}", trial.case_name, trial.grid(), trial.implementation),
            trial.status == TrialStatus::failed || was_cut_short(trial.status));
        early_end->step([&] {
          if (writer && !options.finished.contains(trial.id)) writer->add(trial);
          record.trials.push_back(trial);
          record.stages.add(take_stage_times());
        });
        return true;
      });
    }
    const bool timed = std::any_of(suites.begin(), suites.end(),
                                   [](const Suite& suite) { return suite.timing.has_value(); });
    if (timed && !must_end) {
      const std::vector<MeterRecord> meter = test_meter();
      early_end->step([&] { record.meter = meter; });
    }
    if (timed && !must_end && is_right_everywhere(record.meter, ranks)) {
      options.fault = fault_behind(planned.trials, fault);
      must_end = time_suites(suites, options, problems, [&](const TimingRecord& found) {
        progress.finish_timing(fmt::format("{} {} {}", found.case_name, found.grid, found.cache),
                               found.max_seconds, found.status >= TimingStatus::above_ceiling);
        early_end->step([&] {
          if (writer && !options.finished.contains(found.id())) writer->add(found);
          record.timings.push_back(found);
          record.stages.add(take_stage_times());
        });
      });
    }
  }
  early_end->close();
  if (must_end && modes.verify && !record.trials.empty()) {
    add_not_run(planned_trials(suites), end_of_run_after(record.trials.back()).text, record.trials);
  }
  const RecordingEnd recorded = close_recording(options.recording.get(), ranks, must_end);
  const bool missed = !must_end && has_missed(fault, ranks);
  const ExitCode code = missed ? ExitCode::usage : recorded.exit_code(code_of(record, modes));
  write_report(code, !must_end);
  early_end.reset();
  print_report(recorded);
  if (must_end) leave_at_once(code);
  if (missed) refuse_missed(flags.inject);
  return code;
}

}  // namespace lossgrid
