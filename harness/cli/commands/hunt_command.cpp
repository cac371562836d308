// SPDX-License-Identifier: Apache-2.0
// lossgrid hunt: draws legal cases at random, judges implementations on them, and prints the
// smallest case of every failure.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/early_end.h"
#include "harness/cli/flags/backend_flags.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/session.h"
#include "harness/cli/text/output.h"
#include "harness/cli/text/progress.h"
#include "harness/hunt/hunt.h"
#include "harness/runner/run.h"
#include "reports/file/report_writer.h"
#include "reports/text/hunt_text.h"

namespace lossgrid {
namespace {

constexpr double kDefaultSeconds = 60;
constexpr int kDefaultRanks = 8;

struct HuntFlags {
  double seconds = 0;
  std::int64_t cases = 0;
  bool until_failure = false;
  double shrink_seconds = 5;
  std::optional<std::uint64_t> seed;
  std::string implementations;
  std::string objectives;
  int max_ranks = kDefaultRanks;
  double timeout_s = 300;
  std::string report;
  std::string transport = "auto";
  BackendFlags backend;
  LoadFlags load;
  bool quiet = false;
};

/// Returns the seed of the command line, else one from the clock of the process that reports.
std::uint64_t seed_of(const HuntFlags& flags, const Ranks& ranks) {
  if (flags.seed) return *flags.seed;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return std::stoull(ranks.share_of_reporter(std::to_string(seconds)));
}

HuntOptions options_of(const HuntFlags& flags, const Ranks& ranks) {
  HuntOptions options;
  options.seed = seed_of(flags, ranks);
  if (flags.cases > 0) options.cases = flags.cases;
  if (flags.seconds > 0) options.seconds = flags.seconds;
  if (!options.cases && !options.seconds) options.seconds = kDefaultSeconds;
  options.until_failure = flags.until_failure;
  options.shrink_seconds = flags.shrink_seconds;
  options.implementations = parse_list(flags.implementations);
  options.limits.objectives = parse_list(flags.objectives);
  options.limits.max_ranks = flags.max_ranks;
  if (ranks.limit() > 0) options.limits.max_ranks = std::min(flags.max_ranks, ranks.limit());
  options.backend = requested_backend(flags.backend, ranks);
  options.run.deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_s * 1000));
  options.run.ranks = ranks;
  return options;
}

/// Shows the progress of a hunt as one line that counts up on a terminal, or one every ten seconds.
class HuntLine {
 public:
  explicit HuntLine(ProgressStream stream) : stream_(stream) {}
  ~HuntLine() { clear(); }
  HuntLine(const HuntLine&) = delete;
  HuntLine& operator=(const HuntLine&) = delete;

  void show(const HuntProgress& progress) {
    if (stream_.out == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    const auto pause = std::chrono::milliseconds(stream_.is_terminal ? 100 : 10'000);
    if (now - shown_ < pause) return;
    shown_ = now;
    clear();
    fmt::print(stream_.out, "hunt: {} cases, {} trials, {} failed{}{}", progress.cases,
               progress.trials, progress.bad, progress.is_shrinking ? ", making it smaller" : "",
               stream_.is_terminal ? "" : "\n");
    std::fflush(stream_.out);
    is_there_ = stream_.is_terminal;
  }

 private:
  void clear() {
    if (is_there_) fmt::print(stream_.out, "\r\x1b[K");
    is_there_ = false;
  }

  ProgressStream stream_;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
  bool is_there_ = false;
};

ExitCode run(const HuntFlags& flags) {
  load_requested(flags.load, flags.timeout_s);
  const Ranks ranks = start_ranks(flags.transport);
  const HuntOptions options = options_of(flags, ranks);
  RunRecord record = begin_run("hunt", "");
  std::optional<ReportWriter> writer = open_report(flags.report, record, ranks);
  std::optional<HuntLine> line(std::in_place, progress_stream(flags.quiet || !ranks.reports()));
  Hunt hunt(options, [&](const HuntProgress& progress) { line->show(progress); });

  const auto report = [&](const HuntOutcome& outcome, std::optional<ExitCode> early) {
    record.trials = outcome.bad_trials;
    record.hunts = {outcome.record};
    ExitCode code = exit_code_of(outcome.bad_trials);
    if (outcome.bad_trials.empty()) {
      code = outcome.record.passed > 0 ? ExitCode::ok : ExitCode::nothing_ran;
    }
    if (early) code = *early;
    end_run(record, code, !early && !outcome.must_end);
    if (writer) writer->finish(record);
    if (!ranks.reports()) return code;
    const TextStyle style = stdout_style();
    print_text(format_hunt(outcome.record, style), style);
    if (!flags.quiet) print_text(format_pairs(outcome.record, style), style);
    if (writer) print("report: {}\n", writer->path());
    return code;
  };
  std::optional<EarlyEnd> early_end;
  early_end.emplace(ranks.reports()
                        ? [&](ExitCode code) { report(hunt.outcome(kInterrupted), code); }
                        : std::function<void(ExitCode)>());
  bool goes_on = true;
  while (goes_on) early_end->step([&] { goes_on = hunt.next(); });
  early_end->close();
  line.reset();
  const HuntOutcome outcome = hunt.outcome();
  const ExitCode code = report(outcome, std::nullopt);
  early_end.reset();
  if (outcome.must_end) leave_at_once(code);
  return code;
}

}  // namespace

void add_hunt_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<HuntFlags>();
  CLI::App* command = app.add_subcommand(
      "hunt", "draw legal cases at random and print the smallest one of every failure");
  command
      ->add_option("--seconds", flags->seconds,
                   "draw cases for this time (default 60, or no limit with --cases)")
      ->check(CLI::Range(0.001, 1e7));
  command->add_option("--cases", flags->cases, "end after this many cases")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_flag("--until-failure", flags->until_failure, "end after the first failure");
  command
      ->add_option("--shrink-seconds", flags->shrink_seconds,
                   "look for a smaller trial for this time, for every cause (default 5)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--seed", flags->seed,
                      "seed of all draws: the same seed draws the same cases (default: from the "
                      "clock; the seed is in the report)");
  command->add_option("--impl", flags->implementations,
                      "implementations, comma separated (default: all that are built in)");
  command->add_option("--objective", flags->objectives,
                      "objectives, comma separated (default: all; see lossgrid list objectives)");
  command->add_option("--max-ranks", flags->max_ranks, "ranks of the largest grid (default 8)")
      ->check(CLI::Range(1, kMostRanks));
  command
      ->add_option("--timeout", flags->timeout_s, "deadline of one trial in seconds (default 300)")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--report", flags->report,
                      "write the JSON report here (.json.gz: packed): all cases that were drawn, "
                      "and the smallest trial of every failure");
  add_load_flags(*command, flags->load);
  add_transport_flag(*command, flags->transport);
  add_backend_flags(*command, flags->backend);
  command->add_flag("--quiet", flags->quiet, "print no progress and no table of pairs");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
