// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/run_requested.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "harness/cli/early_end.h"
#include "harness/cli/flags/machine_flag.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/resume.h"
#include "harness/cli/session.h"
#include "harness/cli/text/output.h"
#include "harness/cli/text/progress.h"
#include "harness/comm/nccl/nccl_transport.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/runner/run.h"
#include "harness/runner/timing/timing.h"
#include "reports/file/report_writer.h"
#include "reports/text/predicted_table.h"

namespace lossgrid {
namespace {

/// Reason of trials after the trial that ended a run with --stop-at-failure.
constexpr const char* kStoppedAtFailure = "an earlier trial did not pass (--stop-at-failure)";

/// Trials of a run that stay in memory; those behind them are in a file until the report is
/// written.
constexpr std::size_t kTrialsInMemory = 500;

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

/// True if the meter is right on all processes. Collective: all processes time, or no process.
bool is_right_everywhere(const std::vector<MeterRecord>& meter, const Ranks& ranks) {
  return !ranks.agree_on_any(exit_code_of(meter) != ExitCode::ok);
}

/// Run from its first trial to its exit code. The public functions are called in the order of
/// declaration.
class RequestedRun {
 public:
  RequestedRun(const std::string& command, const SuiteFlags& flags, const SuiteModes& modes,
               TableRows rows, std::vector<Suite> suites, RunOptions options)
      : command_(command),
        flags_(flags),
        modes_(modes),
        rows_(rows),
        suites_(std::move(suites)),
        options_(std::move(options)),
        fault_(options_.fault),
        planned_(plan_steps(suites_, modes)) {}

  /// Takes over the finished work of an earlier run.
  void resume() {
    if (flags_.resume.empty()) return;
    options_.finished =
        read_finished(flags_.resume, command_, after_failure(flags_), options_.ranks);
  }

  /// Opens recording and report, and begins to watch for interrupts.
  void open() {
    const Ranks& ranks = options_.ranks;
    options_.recording = open_recording(flags_.recording, ranks);
    record_ = begin_run(command_, flags_.suite);
    if (const auto job = ranks.environment(); !job.is_null()) record_.environment["mpi"] = job;
    if (ranks.has_nccl() && !no_nccl()) record_.environment["nccl"] = nccl_version();
    if (const auto gpus = describe_devices(suites_.front().backend); !gpus.empty()) {
      record_.environment["gpus"] = gpus;
    }
    if (options_.machine) record_.environment["machine"] = options_.machine->name;
    record_.planned = PlannedWork{static_cast<std::int64_t>(planned_.trials),
                                  static_cast<std::int64_t>(planned_.timings)};
    if (auto writer = open_report(flags_.report, record_, ranks)) {
      writer_.emplace(std::move(*writer));
      keep_finished(options_.finished, *writer_);
    }
    early_end_.emplace(ranks.reports() ? [this](ExitCode code) { report_interrupted(code); }
                                       : std::function<void(ExitCode)>());
    options_.begins = [this](const std::string& id, const std::string& reproduce) {
      early_end_->step([&] {
        in_progress_ = id;
        if (writer_) writer_->begin(id, reproduce);
      });
    };
    progress_.emplace(command_, planned_, progress_stream(flags_.quiet || !ranks.reports()));
  }

  void run_trials() {
    if (!modes_.verify) return;
    record_.trials.keep_in_memory(kTrialsInMemory);
    options_.explains = true;
    must_end_ = run_suites(suites_, options_, problems_, [this](const TrialRecord& trial) {
      progress_->finish_trial(
          fmt::format("{} {} {}", trial.case_name, trial.grid(), trial.implementation),
          is_bad(trial.status));
      early_end_->step([&] {
        if (writer_ && !options_.finished.contains(trial.id)) writer_->add(trial);
        record_.trials.push_back(trial);
        record_.stages.add(take_stage_times());
      });
      return true;
    });
    stopped_ = !must_end_ && record_.trials.size() < planned_.trials;
  }

  /// Runs the timings of the suites, unless the meter fails its own test.
  void run_timings() {
    const bool is_timed = std::any_of(suites_.begin(), suites_.end(),
                                      [](const Suite& suite) { return suite.timing.has_value(); });
    if (!is_timed || must_end_ || stopped_) return;
    const std::vector<MeterRecord> meter = test_meter();
    early_end_->step([&] { record_.meter = meter; });
    if (!is_right_everywhere(record_.meter, options_.ranks)) return;
    options_.fault = fault_behind(planned_.trials, fault_);
    must_end_ = time_suites(suites_, options_, problems_, [this](const TimingRecord& found) {
      progress_->finish_timing(fmt::format("{} {} {}", found.case_name, found.grid, found.cache),
                               found.max_seconds, found.status >= TimingStatus::above_ceiling);
      early_end_->step([&] {
        if (writer_ && !options_.finished.contains(found.id())) writer_->add(found);
        record_.timings.push_back(found);
        record_.stages.add(take_stage_times());
      });
    });
  }

  /// Reports the run and returns its exit code. Does not return if a rank hangs.
  ExitCode end() {
    progress_.reset();
    early_end_->close();
    const Ranks& ranks = options_.ranks;
    if ((must_end_ || stopped_) && modes_.verify && !record_.trials.empty()) {
      add_not_run(planned_trials(suites_),
                  must_end_ ? end_of_run_after(record_.trials.last()).text : kStoppedAtFailure,
                  record_.trials);
    }
    const RecordingEnd recorded = close_recording(options_.recording.get(), ranks, must_end_);
    const bool missed = !must_end_ && !stopped_ && has_missed(fault_, ranks);
    const ExitCode code =
        missed ? ExitCode::usage : recorded.exit_code(run_exit_code(record_, modes_));
    write_report(code, !must_end_ && !stopped_);
    early_end_.reset();
    print_report(recorded);
    if (must_end_) leave_at_once(code);
    if (missed) refuse_missed(flags_.inject);
    return code;
  }

 private:
  void write_report(ExitCode code, bool is_complete) {
    end_run(record_, code, is_complete);
    if (writer_) writer_->finish(record_);
  }

  void print_report(const RecordingEnd& recorded) {
    const bool reports = options_.ranks.reports();
    if (reports) print_results(record_, flags_, rows_);
    if (writer_) print("report: {}\n", writer_->path());
    if (reports) print_recording(options_.recording.get(), recorded);
  }

  void report_interrupted(ExitCode code) {
    if (modes_.verify) add_interrupted(planned_trials(suites_), in_progress_, record_.trials);
    const RecordingEnd recorded =
        close_recording(options_.recording.get(), options_.ranks, /*must_end=*/true);
    write_report(code, false);
    print_report(recorded);
    if (writer_) print("continue: {}\n", resume_line(writer_->path()));
  }

  const std::string& command_;
  const SuiteFlags& flags_;
  const SuiteModes& modes_;
  const TableRows rows_;
  const std::vector<Suite> suites_;
  RunOptions options_;
  const std::optional<Fault> fault_;  // as requested; timings get a fault that trials did not reach
  const PlannedSteps planned_;
  RunRecord record_;
  std::optional<ReportWriter> writer_;
  std::string in_progress_;  // id of a trial or timing
  bool must_end_ = false;
  bool stopped_ = false;  // stopped by --stop-at-failure
  std::optional<EarlyEnd> early_end_;
  ProblemCache problems_;
  std::optional<Progress> progress_;
};

}  // namespace

ExitCode run_requested(const std::string& command, const SuiteFlags& flags,
                       const TimingFlags& timing, const SuiteModes& modes, TableRows rows) {
  RunOptions options;
  options.fault = requested_fault(flags.inject, flags.backend.backend);
  std::vector<Suite> suites = requested_suites(command, flags, timing, modes);
  const Ranks ranks = start_ranks(flags.transport);
  requested_backend(flags.backend, ranks);
  require_runnable(suites, rank_limit(suites, flags.max_ranks, ranks.limit() == 0), ranks);
  set_threads_per_rank(flags.threads_per_rank);
  options.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_s * 1000));
  options.ranks = ranks;
  if (auto machine = requested_machine(flags.machine)) {
    machine->transport(std::string(ranks.transport()));  // throws without it
    options.machine = std::make_shared<const Machine>(std::move(*machine));
  }
  options.stop_at_failure = flags.stop_at_failure;
  RequestedRun run(command, flags, modes, rows, std::move(suites), std::move(options));
  run.resume();
  run.open();
  run.run_trials();
  run.run_timings();
  return run.end();
}

ExitCode run_exit_code(const RunRecord& record, const SuiteModes& modes) {
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
                   format_chunk_table(record, style) + format_predicted_table(record, style) +
                   format_timing_table(record.timings, style),
               style);
  }
  print_text(format_meter(record.meter));
  print_text(format_summary(record, style), style);
}

}  // namespace lossgrid
