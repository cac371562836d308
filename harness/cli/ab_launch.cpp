// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/ab_launch.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "harness/cli/flags/rank_limit.h"
#include "harness/core/process/child_process.h"
#include "harness/core/process/interrupts.h"
#include "harness/core/text.h"
#include "reports/file/report_reader.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// Temporary folder, removed with its contents.
class LaunchFolder {
 public:
  LaunchFolder() : path_((fs::temp_directory_path() / "lossgrid_ab_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw Error(ErrorCode::io, "cannot make " + path_);
  }
  ~LaunchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  LaunchFolder(const LaunchFolder&) = delete;
  LaunchFolder& operator=(const LaunchFolder&) = delete;
  std::string report() const { return path_ + "/report.json"; }

 private:
  std::string path_;
};

/// Returns the deadline of the process, for the case that `bench` does not reach its own deadlines.
milliseconds launch_deadline(const AbLaunchRequest& request) {
  constexpr double kIterations = 20;
  constexpr double kStart_s = 60;
  return milliseconds(static_cast<std::int64_t>(
      1000 * (request.max_seconds + kIterations * request.timeout_s + kStart_s)));
}

TimingRecord nothing_found(TimingStatus status, std::string reason) {
  TimingRecord record;
  record.status = status;
  record.reason = std::move(reason);
  return record;
}

/// Starts `command` and returns its end; nullopt if it does not end within `limit`.
std::optional<ProcessEnd> wait_for_end(const std::vector<std::string>& command,
                                       milliseconds limit) {
  constexpr milliseconds kPoll{100};
  ChildProcess child(command);
  const auto until = std::chrono::steady_clock::now() + limit;
  std::optional<ProcessEnd> end;
  while (!end && noted_interrupt() == 0 && std::chrono::steady_clock::now() < until) {
    end = child.wait_for(kPoll);
  }
  if (noted_interrupt() != 0) throw AbInterrupted();
  return end;
}

bool refused(const ProcessEnd& end) {
  return end.exit_code == static_cast<int>(ExitCode::usage) ||
         end.exit_code == static_cast<int>(ExitCode::bad_input);
}

}  // namespace

std::vector<std::string> ab_command(const AbLaunchRequest& request, const AbProcess& process,
                                    const std::string& report) {
  std::vector<std::string> words{
      process.build == Build::base ? request.base_binary
                                   : fs::read_symlink("/proc/self/exe").string(),
      "bench",
      "--case",
      request.case_text,
      "--impl",
      join(process.implementations, ","),
      "--grid",
      request.grid,
      "--cache",
      request.cache,
      "--order-seed",
      std::to_string(process.order_seed),
      "--min-samples",
      std::to_string(request.pairs + kAbWarmUpRounds),
      "--target-stderr",
      "1",  // the same number of samples in every launch
      "--max-seconds",
      format_number(request.max_seconds),
      "--timeout",
      format_number(request.timeout_s),
      "--max-ranks",
      std::to_string(request.max_ranks > 0 ? request.max_ranks : kMostRanks),
      "--transport",
      "thread",
      "--quiet",
      "--report",
      report};
  if (request.threads_per_rank > 0) {
    words.insert(words.end(), {"--threads-per-rank", std::to_string(request.threads_per_rank)});
  }
  for (const std::string& file : request.load) words.insert(words.end(), {"--load", file});
  if (!request.python.empty()) words.insert(words.end(), {"--python", request.python});
  return words;
}

TimingRecord run_ab_process(const AbLaunchRequest& request, const AbProcess& process) {
  const LaunchFolder folder;
  const std::vector<std::string> command = ab_command(request, process, folder.report());
  const std::optional<ProcessEnd> end = wait_for_end(command, launch_deadline(request));
  if (!end) {
    return nothing_found(TimingStatus::timeout, "a launch did not come to its end in time");
  }
  if (refused(*end)) {
    throw_bad_input("a launch of {} ended with {}", command[0], end->text());
  }
  if (!fs::exists(folder.report())) {
    return nothing_found(
        TimingStatus::error,
        fmt::format("a launch of {} ended with {} and left no report", command[0], end->text()));
  }
  RunRecord found = read_report(folder.report());
  if (found.timings.empty()) {
    return nothing_found(
        TimingStatus::error,
        fmt::format("a launch of {} ended with {} and timed nothing", command[0], end->text()));
  }
  return std::move(found.timings.front());
}

}  // namespace lossgrid
