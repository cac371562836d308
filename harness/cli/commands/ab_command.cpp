// SPDX-License-Identifier: Apache-2.0
// Command `lossgrid ab`: compares the times of two implementations, or of two builds of one, over
// several launches of `bench`.
#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/ab_launch.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/flags/suite_flags.h"
#include "harness/cli/session.h"
#include "harness/cli/text/output.h"
#include "harness/comm/launcher.h"
#include "harness/core/process/interrupts.h"
#include "harness/runner/run.h"
#include "reports/file/report_writer.h"
#include "reports/text/table.h"

namespace lossgrid {
namespace {

struct AbFlags {
  SuiteFlags suite;
  TimingFlags timing;
  std::string base_binary;
  bool self_check = false;
  std::string phases;
  std::int64_t pairs = 30;
  std::int64_t seed = 1;
  double max_seconds = 30;
  double margin_ratio = 0.1;
  bool strict = false;
};

/// Both implementations or builds of one comparison.
struct Sides {
  AbSide a;
  AbSide b;
};

/// Returns the sides of all comparisons. Throws usage if the implementations do not make pairs.
std::vector<Sides> pair_sides(const AbFlags& flags) {
  const std::vector<std::string> names = parse_list(flags.suite.implementations);
  const Build of_a = flags.base_binary.empty() ? Build::head : Build::base;
  const Build of_b = flags.self_check ? of_a : Build::head;
  const bool one_each = flags.self_check || !flags.base_binary.empty();
  if (one_each ? names.empty() : names.size() != 2 || names[0] == names[1]) {
    throw Error(ErrorCode::usage,
                one_each ? "ab with --aa or --base-binary needs --impl"
                         : "ab needs two different implementations: --impl A --impl B");
  }
  if (!one_each) return {{{names[0], of_a}, {names[1], of_b}}};
  std::vector<Sides> all;
  for (const std::string& name : names) all.push_back({{name, of_a}, {name, of_b}});
  return all;
}

std::vector<std::string> requested_phases(const AbFlags& flags) {
  const std::vector<std::string> phases = parse_list(flags.phases);
  for (const std::string& phase : phases) {
    if (phase == "forward" || phase == "backward" || phase == "forward_backward") continue;
    throw Error(ErrorCode::usage,
                fmt::format("--phase '{}' is none of forward, backward, forward_backward", phase));
  }
  return phases;
}

std::string case_title(const CaseSpec& spec) {
  const std::string text = format_case(spec);
  return spec.name == text ? text : spec.name + ": " + text;
}

class AbRun {
 public:
  AbRun(const AbFlags& flags, std::vector<Sides> sides, std::vector<std::string> phases)
      : flags_(flags), sides_(std::move(sides)), phases_(std::move(phases)) {}

  void run(const std::vector<Suite>& suites, RunRecord& record, ReportWriter* writer) {
    for (const Suite& suite : suites) {
      const std::size_t places =
          suite.cases.size() * suite.grids.size() * suite.timing->caches.size();
      comparisons_ += places * sides_.size() * (phases_.empty() ? 3 : phases_.size());
    }
    for (const Suite& suite : suites) {
      for (const CaseSpec& spec : suite.cases) {
        for (const Grid& grid : suite.grids) {
          for (const CacheMode cache : suite.timing->caches) {
            for (const Sides& sides : sides_) compare(spec, grid, cache, sides, record, writer);
          }
        }
      }
    }
  }

  /// Returns one line for each comparison that could not be made.
  const std::string& failures() const { return failures_; }
  /// Returns the worst code of all comparisons; nothing_ran when all were skipped.
  ExitCode code(const RunRecord& record) const {
    if (record.ab.empty() && code_ == ExitCode::ok) return ExitCode::nothing_ran;
    return worst(code_, exit_code_of(record.ab, flags_.strict));
  }

 private:
  void compare(const CaseSpec& spec, const Grid& grid, CacheMode cache, const Sides& sides,
               RunRecord& record, ReportWriter* writer) {
    AbLaunchRequest launch;
    launch.base_binary = flags_.base_binary;
    launch.case_text = format_case(spec);
    launch.grid = format_grid(grid);
    launch.cache = name(cache);
    launch.pairs = flags_.pairs;
    launch.max_seconds = flags_.max_seconds;
    launch.timeout_s = flags_.suite.timeout_s;
    launch.max_ranks = flags_.suite.max_ranks;
    launch.threads_per_rank = flags_.suite.threads_per_rank;
    launch.load = flags_.suite.load.files;  // files of LOSSGRID_LOAD are in its environment
    launch.python = flags_.suite.load.python;
    AbRequest request;
    request.a = sides.a;
    request.b = sides.b;
    request.two_builds = !flags_.base_binary.empty();
    request.phases = phases_;
    request.margin = flags_.margin_ratio;
    request.alpha = look_alpha(comparisons_);
    request.seed = static_cast<std::uint64_t>(flags_.seed);
    const std::string place =
        fmt::format("{} on {}, cache {}", case_title(spec), launch.grid, launch.cache);
    AbOutcome outcome = compare_sides(
        request, [&](const AbProcess& process) { return run_ab_process(launch, process); },
        [&](const std::vector<AbRecord>& so_far) { print_look(place, so_far); });
    for (AbRecord& found : outcome.records) {
      found.case_title = case_title(spec);
      found.grid = launch.grid;
      found.cache = launch.cache;
      if (writer != nullptr) writer->add(found);
      record.ab.push_back(std::move(found));
    }
    if (outcome.reason.empty()) return;
    failures_ += fmt::format("{}: {}: {}\n", name(outcome.status), place, outcome.reason);
    code_ = worst(code_, exit_code_of(outcome.status));
  }

  /// Prints the place and the verdicts so far, because launches may take long.
  void print_look(const std::string& place, const std::vector<AbRecord>& so_far) const {
    if (flags_.suite.quiet) return;
    print("{}:", place);
    for (const AbRecord& record : so_far) {
      print(" {} {} after {} launches;", record.phase, name(record.verdict),
            record.launch_ratios.size());
    }
    print("\n");
    flush_output();
  }

  const AbFlags& flags_;
  const std::vector<Sides> sides_;
  const std::vector<std::string> phases_;
  std::size_t comparisons_ = 0;
  std::string failures_;
  ExitCode code_ = ExitCode::ok;
};

ExitCode run(const AbFlags& flags) {
  if (under_launcher()) {
    throw Error(ErrorCode::usage,
                "ab starts its launches itself, ranks are threads: run it without mpirun or srun");
  }
  AbRun comparisons(flags, pair_sides(flags), requested_phases(flags));
  const SuiteModes modes{false, SuiteModes::Bench::always};
  const std::vector<Suite> suites = requested_suites("ab", flags.suite, flags.timing, modes);
  require_runnable(suites, rank_limit(suites, flags.suite.max_ranks));
  RunRecord record = begin_run("ab", flags.suite.suite);
  std::optional<ReportWriter> writer = open_report(flags.suite.report, record, Ranks());
  std::optional<NotedInterrupts> interrupts(std::in_place);
  int interrupt = 0;
  try {
    comparisons.run(suites, record, writer ? &*writer : nullptr);
  } catch (const AbInterrupted&) {
    interrupt = noted_interrupt();
  }
  const ExitCode code =
      interrupt == 0 ? comparisons.code(record) : exit_code_of_interrupt(interrupt);
  end_run(record, code, interrupt == 0);
  if (writer) writer->finish(record);
  interrupts.reset();
  if (!record.ab.empty()) {
    const TextStyle style = stdout_style();
    print_text(format_ab_table(record.ab, style) + format_summary(record, style), style);
  }
  print_text(comparisons.failures());
  if (interrupt != 0) print("interrupted: what is not above was not compared\n");
  if (writer) print("report: {}\n", writer->path());
  return code;
}

}  // namespace

void add_ab_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<AbFlags>();
  CLI::App* command = app.add_subcommand(
      "ab", "does B take longer than A? Two implementations or two builds, in several launches");
  add_trial_flags(*command, flags->suite);
  command->get_option("--impl")->join(',')->description(
      "A and B, as --impl A --impl B or --impl A,B; with --base-binary or --aa those that are "
      "compared with themselves");
  command->add_option("--base-binary", flags->base_binary,
                      "A is the same implementation in this lossgrid, in a process of its own");
  command->add_flag("--aa", flags->self_check,
                    "self-check: A against itself (with --base-binary that build against itself)");
  command->add_option("--phase", flags->phases,
                      "forward, backward, forward_backward, comma separated (default: all that "
                      "both have)");
  command->add_option("--cache", flags->timing.caches,
                      "what caches hold before a timed phase, comma separated: hot, cold "
                      "(default: the suite's, or hot)");
  command
      ->add_option("--time-margin", flags->margin_ratio,
                   "part of A's time that B may take longer: 0.1 on shared cores, 0.03 on a "
                   "dedicated machine (default 0.1)")
      ->check(CLI::Range(0.0, 10.0));
  command->add_option("--pairs", flags->pairs, "pairs of samples in a launch (default 30)")
      ->check(CLI::Range(2, 998));
  command
      ->add_option("--max-seconds", flags->max_seconds,
                   "end the samples of a launch after this time (default 30)")
      ->check(CLI::Range(0.001, 1e6));
  command
      ->add_option("--order-seed", flags->seed, "seed of the random order of A and B (default 1)")
      ->check(CLI::Range(0, 2147483647));
  command->add_flag("--strict", flags->strict, "inconclusive ends with 13");
  command->add_option("--report", flags->suite.report,
                      "write the JSON report here (.json.gz: packed)");
  command->add_flag("--quiet", flags->suite.quiet, "print no line for every look");
  command->footer(
      "A launch is a process that times A and B in turn, in a random order, and gives one ratio; "
      "of "
      "two builds it is a\nprocess of each, with times relative to the ceiling of the machine in "
      "the same rounds. After 12, 20 and 30\nlaunches the exact interval of their median is "
      "judged: REGRESSED above "
      "1 + margin for certain, OK below it,\nIMPROVED below 1 / (1 + margin), else INCONCLUSIVE "
      "and more launches.\n"
      "Exit codes: 0 OK, IMPROVED or INCONCLUSIVE, 10 outputs are wrong, 11 REGRESSED, 13 "
      "INCONCLUSIVE with --strict\nor --aa, 14 a launch died, or a false alarm of --aa, 15 hang, "
      "64 usage, 65 bad input, 77 nothing was compared.\n"
      "Try: lossgrid ab --case \"lens=512 vocab=32768\" --impl per_sequence --impl fused");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
