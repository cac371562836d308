// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/supervise.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/early_end.h"
#include "harness/cli/flags/allowed_values.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/launcher_command.h"
#include "harness/cli/resume.h"
#include "harness/cli/run_requested.h"
#include "harness/cli/text/output.h"
#include "harness/comm/faults/flight_recorder.h"
#include "harness/comm/launcher.h"
#include "harness/core/process/child_process.h"
#include "harness/core/process/interrupts.h"
#include "harness/runner/launched_work.h"
#include "harness/runner/run.h"
#include "harness/runner/verdict/desync_report.h"
#include "reports/file/report_reader.h"
#include "reports/file/report_writer.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// Deadline of a launch that stops reporting, on top of the deadlines of its trials.
constexpr seconds kSilence{60};
constexpr milliseconds kPoll{100};
constexpr milliseconds kPatience{5000};  // for a launcher to end its processes

/// Grids of one launch.
struct Launch {
  std::string grid;  // empty: all grids
  int ranks = 1;
};

std::vector<Launch> plan_launches(const std::vector<Suite>& suites, bool one_grid_each) {
  Launch all;
  std::vector<Launch> each;
  for (const Suite& suite : suites) {
    for (const Grid& grid : suite.grids) {
      all.ranks = std::max(all.ranks, grid.ranks());
      const Launch launch{format_grid(grid), grid.ranks()};
      if (std::none_of(each.begin(), each.end(),
                       [&](const Launch& other) { return other.grid == launch.grid; })) {
        each.push_back(launch);
      }
    }
  }
  return one_grid_each ? each : std::vector<Launch>{all};
}

/// End of a launch.
struct LaunchEnd {
  std::string text;  // "the launcher ended with exit code 137 (SIGKILL)"
  int exit_code = -1;
  bool stopped = false;  // stopped by this process
};

class Supervisor {
 public:
  Supervisor(const SuperviseFlags& how, const SuiteFlags& flags, const std::vector<Suite>& suites,
             bool verify, RunRecord& record)
      : how_(how),
        flags_(flags),
        work_(suites, verify),
        times_(std::any_of(suites.begin(), suites.end(),
                           [](const Suite& suite) { return suite.timing.has_value(); })),
        record_(record),
        launch_report_((flags.report.empty() ? "REPORT" : flags.report) + ".launch.json"),
        flight_records_(flags.report + ".launch.crumbs") {
    if (flags.resume.empty()) return;
    const FinishedWork finished(read_earlier(flags.resume, record.command), after_failure(flags),
                                uses_nccl() ? Ranks().with_nccl() : Ranks());
    RunRecord kept;
    for (const auto& [id, trial] : finished.trials()) kept.trials.push_back(trial);
    for (const auto& [id, timing] : finished.timings()) kept.timings.push_back(timing);
    work_.take(kept);
  }

  LaunchRequest request(const Launch& launch) const {
    LaunchRequest request;
    request.launcher = how_.launcher;
    request.executable = fs::read_symlink("/proc/self/exe").string();
    request.arguments = command_line();
    request.ranks = launch.ranks;
    request.grid = launch.grid;
    request.report = launch_report_;
    request.resume = launches_ > 0 ? flags_.report : "";
    return request;
  }

  /// Starts launches until the work of `launch` is done or a launch finishes nothing. Returns ok,
  /// or the exit code of an end that makes the rest of the run pointless.
  ExitCode run(const Launch& launch) {
    while (!is_done(launch) && noted_interrupt() == 0) {
      if (how_.max_launches > 0 && launches_ == how_.max_launches) {
        not_run_reason_ = fmt::format("not reached with --max-launches {}", how_.max_launches);
        return ExitCode::ok;
      }
      const std::size_t before = work_.reached();
      const LaunchEnd end = launch_once(request(launch));
      ++launches_;
      const bool whole = collect(end);
      // A launch that died cannot report if its fault fired, and most faults kill it.
      if (!whole || end.exit_code != static_cast<int>(ExitCode::usage)) fault_fired_ = true;
      write(ExitCode::rank_crashed, false);
      if (!flags_.quiet) print_progress(launch, whole ? "" : end.text);
      if (work_.reached() > before) continue;
      not_run_reason_ = "a launch got no further: " + end.text;
      const bool refused = end.exit_code == static_cast<int>(ExitCode::usage) ||
                           end.exit_code == static_cast<int>(ExitCode::bad_input);
      if (refused) return static_cast<ExitCode>(end.exit_code);
      print_message(not_run_reason_);
      return ExitCode::rank_crashed;
    }
    return ExitCode::ok;
  }

  bool is_done() const { return work_.reached() == work_.planned(); }
  /// True if the run has a fault and it fired in any launch.
  bool fault_fired() const { return fault_fired_; }

  /// Writes the report of all launches so far.
  void write(ExitCode code, bool complete) {
    work_.fill(record_, noted_interrupt() == 0 ? not_run_reason_ : kInterrupted);
    end_run(record_, code, complete);
    record_.stages = stages_;
    writer_->write(record_);
  }
  /// Opens the report, before the first launch.
  void open() { writer_.emplace(flags_.report, record_); }
  /// Closes the report with its last written contents.
  void close() { writer_->finish(record_); }

 private:
  bool uses_nccl() const { return flags_.transport == "nccl"; }

  std::string launch_transport(const RunRecord& launch) const {
    if (uses_nccl()) return "nccl";
    return launch.environment.contains("mpi") ? "mpi" : "thread";
  }

  bool is_done(const Launch& launch) const {
    return launch.grid.empty() ? is_done() : work_.has_all_of(launch.grid);
  }

  /// Starts a launch and waits for its end, or ends the launch.
  LaunchEnd launch_once(const LaunchRequest& request) {
    remove_launch_files();
    setenv(kSupervisedVariable, "1", 1);
    setenv(kFlightRecorderVariable, fs::absolute(flight_records_).c_str(), 1);
    ChildProcess child(launch_command(request));
    const steady_clock::time_point begin = steady_clock::now();
    steady_clock::time_point last_sign = begin;
    std::uintmax_t size = 0;
    const std::chrono::duration<double> silence =
        kSilence + std::chrono::duration<double>(flags_.timeout_s);
    for (;;) {
      if (const std::optional<ProcessEnd> end = child.wait_for(kPoll)) {
        return {fmt::format("{} ended with {}",
                            how_.launcher.empty() ? "the process" : "the launcher", end->text()),
                end->exit_code, false};
      }
      const steady_clock::time_point now = steady_clock::now();
      std::error_code missing;
      const std::uintmax_t written = fs::file_size(launch_report_ + kPartialReportSuffix, missing);
      if (!missing && written != size) {
        size = written;
        last_sign = now;
      }
      std::string reason;
      if (noted_interrupt() != 0) reason = kInterrupted;
      // A timing reports nothing until its requested time is over.
      if (!times_ && now - last_sign > silence) {
        reason = fmt::format("no sign of life for {:.0f} s", silence.count());
      }
      if (how_.launch_timeout_s > 0 &&
          now - begin > std::chrono::duration<double>(how_.launch_timeout_s)) {
        reason = fmt::format("the launch took longer than {} s", how_.launch_timeout_s);
      }
      if (!reason.empty()) return {reason, child.stop(kPatience).exit_code, true};
    }
  }

  /// Takes the results of a launch. Returns true if the launch was complete.
  bool collect(const LaunchEnd& end) {
    const bool whole = fs::exists(launch_report_);
    if (!whole && !fs::exists(launch_report_ + kPartialReportSuffix)) return false;
    RunRecord found;
    try {
      found = read_report(launch_report_);
    } catch (const Error&) {
      return false;  // the launch died before its first line was complete
    }
    work_.take(found);
    record_.environment = found.environment;
    for (std::size_t k = 0; k < kStages; ++k) stages_.ns[k] += found.stages.ns[k];
    if (!found.begun_id.empty() && noted_interrupt() == 0) {
      const ErrorCode code = end.stopped ? ErrorCode::timeout : ErrorCode::process_died;
      work_.lose({found.begun_id,
                  {code, end.text},
                  launch_transport(found),
                  desync_report(read_flight_records(flight_records_))});
    }
    remove_launch_files();
    return whole;
  }

  void remove_launch_files() const {
    std::error_code ignored;
    fs::remove(launch_report_, ignored);
    fs::remove(launch_report_ + kPartialReportSuffix, ignored);
    fs::remove_all(flight_records_, ignored);
  }

  void print_progress(const Launch& launch, const std::string& ended) const {
    print("launch {}{}: {} of {} done{}\n", launches_,
          launch.grid.empty() ? "" : " (" + launch.grid + ")", work_.reached(), work_.planned(),
          ended.empty() ? "" : "; " + ended);
    flush_output();
  }

  const SuperviseFlags& how_;
  const SuiteFlags& flags_;
  LaunchedWork work_;
  const bool times_;
  RunRecord& record_;
  const std::string launch_report_;
  const std::string flight_records_;  // folder of flight records
  std::string not_run_reason_ = "not reached";
  int launches_ = 0;
  bool fault_fired_ = false;
  std::optional<ReportWriter> writer_;
  StageTimes stages_;  // of complete launches
};

}  // namespace

void add_supervise_flags(CLI::App& command, SuperviseFlags& flags) {
  command.add_flag("--supervise", flags.on,
                   "run the trials in launches of this executable, go on in a new one where one "
                   "dies, and write the report whatever happens");
  command.add_option(
      "--launch", flags.launcher,
      "with --supervise: what starts the ranks, for example \"mpirun -np {ranks}\"; "
      "{ranks} is the largest grid of the launch (default: none, ranks are threads)");
  command
      .add_option("--launches", flags.launches,
                  "with --supervise: all grids in one launch, or a launch for each grid (default "
                  "all)")
      ->check(allowed_values({"all", "grid"}));
  command
      .add_option("--max-launches", flags.max_launches,
                  "with --supervise: end after so many, what is left is not_run (default: go on as "
                  "long as each launch finishes something)")
      ->check(CLI::Range(1, 1000000));
  command
      .add_option("--launch-timeout", flags.launch_timeout_s,
                  "with --supervise: end a launch that takes longer, in seconds")
      ->check(CLI::Range(0.001, 1e7));
  command.add_flag("--dry-run", flags.dry_run,
                   "with --supervise: print the command lines of the launches and start none");
}

void require_sensible(const SuperviseFlags& how, const SuiteFlags& flags) {
  const auto refuse = [](const std::string& reason) { throw Error(ErrorCode::usage, reason); };
  if (!how.on) {
    const bool alone = !how.launcher.empty() || how.launches != "all" || how.max_launches > 0 ||
                       how.launch_timeout_s > 0 || how.dry_run;
    if (alone) {
      refuse(
          "--launch, --launches, --max-launches, --launch-timeout and --dry-run need --supervise");
    }
    return;
  }
  if (under_launcher()) refuse("--supervise starts the launcher itself: --launch \"mpirun -np 8\"");
  if (flags.report.empty() && !how.dry_run) refuse("--supervise needs --report");
  if (flags.stop_at_failure) refuse("--stop-at-failure does not go with --supervise");
  if (flags.recording.any()) {
    refuse(
        "--memory-snapshot and --trace do not go with --supervise: each launch would replace what "
        "the one before has written");
  }
}

ExitCode supervise(const SuperviseFlags& how, const std::string& command, const SuiteFlags& flags,
                   const TimingFlags& timing, const SuiteModes& modes, TableRows rows) {
  requested_fault(flags.inject, flags.backend.backend);  // refused here instead of in each launch
  const std::vector<Suite> suites = requested_suites(command, flags, timing, modes);
  require_runnable(suites, rank_limit(suites, flags.max_ranks, how.launcher.empty()));
  RunRecord record = begin_run(command, flags.suite);
  Supervisor supervisor(how, flags, suites, modes.verify, record);
  const std::vector<Launch> launches = plan_launches(suites, how.launches == "grid");
  if (how.dry_run) {
    for (const Launch& launch : launches) {
      print("{}\n", launch_line(supervisor.request(launch)));
    }
    return ExitCode::ok;
  }

  std::optional<NotedInterrupts> interrupts(std::in_place);
  supervisor.open();
  ExitCode ended = ExitCode::ok;
  for (const Launch& launch : launches) {
    if (ended == ExitCode::ok && noted_interrupt() == 0) ended = supervisor.run(launch);
  }
  const int interrupt = noted_interrupt();
  supervisor.write(ExitCode::rank_crashed, false);
  const bool refused = ended == ExitCode::usage || ended == ExitCode::bad_input;
  const bool missed =
      !refused && !flags.inject.fault.empty() && interrupt == 0 && !supervisor.fault_fired();
  ExitCode code = ended;
  if (ended == ExitCode::ok) {
    code = run_exit_code(record, modes);
  } else if (!refused) {
    code = worst(ended, run_exit_code(record, modes));
  }
  if (missed) code = ExitCode::usage;
  if (interrupt != 0) code = exit_code_of_interrupt(interrupt);
  supervisor.write(code, supervisor.is_done());
  supervisor.close();
  interrupts.reset();
  if (refused) return ended;
  print_results(record, flags, rows);
  print("report: {}\n", flags.report);
  if (interrupt != 0) print("continue: {}\n", resume_line(flags.report));
  if (missed) refuse_missed(flags.inject);
  return code;
}

}  // namespace lossgrid
