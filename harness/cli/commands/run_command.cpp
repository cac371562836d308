// SPDX-License-Identifier: Apache-2.0
// lossgrid run: runs the trials of a suite or of cases given on the command line, and timings if
// the suite or --mode requests them.
#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/flags/trial_choice.h"
#include "harness/cli/run_requested.h"
#include "harness/cli/supervise.h"
#include "harness/cli/text/output.h"
#include "harness/cli/watch.h"
#include "harness/runner/run.h"

namespace lossgrid {
namespace {

/// Case of a command line that names neither a suite nor a case; it takes seconds on any grid.
constexpr const char* kDefaultCase = "lens=5+8 vocab=96";

struct RunFlags {
  SuiteFlags suite;
  TimingFlags timing;
  std::string modes;
  SuperviseFlags supervise;
  bool by_grid = false;
  bool list_trials = false;
  bool watch = false;
};

SuiteModes parse_modes(const std::string& text) {
  if (text.empty()) return {};
  SuiteModes modes{false, SuiteModes::Bench::never};
  for (const std::string& mode : parse_list(text)) {
    if (mode == "verify") {
      modes.verify = true;
    } else if (mode == "bench") {
      modes.bench = SuiteModes::Bench::always;
    } else {
      throw Error(ErrorCode::usage, fmt::format("--mode '{}' is neither verify nor bench", mode));
    }
  }
  return modes;
}

ExitCode print_trials(const RunFlags& flags, const SuiteModes& modes) {
  const std::vector<Suite> suites = requested_suites("run", flags.suite, flags.timing, modes);
  require_runnable(suites, rank_limit(suites, flags.suite.max_ranks, /*ranks_are_threads=*/true));
  print_text(list_of_trials(suites));
  return ExitCode::ok;
}

ExitCode run(const RunFlags& flags) {
  SuiteModes modes = parse_modes(flags.modes);
  const bool takes_single_trials = flags.list_trials || !flags.suite.trials.empty();
  if (takes_single_trials && (!modes.verify || modes.bench == SuiteModes::Bench::always)) {
    throw Error(ErrorCode::usage,
                fmt::format("{} is of trials, and --mode {} of timings",
                            flags.list_trials ? "--list-trials" : "--trials", flags.modes));
  }
  if (takes_single_trials) modes.bench = SuiteModes::Bench::never;
  if (flags.list_trials && flags.watch) {
    throw Error(ErrorCode::usage, "--watch does not go with --list-trials, which runs nothing");
  }
  if (flags.list_trials) return print_trials(flags, modes);
  if (flags.watch) {
    if (flags.supervise.on) {
      throw Error(ErrorCode::usage, "--watch does not go with --supervise");
    }
    require_watchable(flags.suite);
    return watch(flags.suite);
  }
  const TableRows rows = flags.by_grid ? TableRows::one_per_grid : TableRows::grids_folded;
  require_sensible(flags.supervise, flags.suite);
  if (flags.supervise.on) {
    return supervise(flags.supervise, "run", flags.suite, flags.timing, modes, rows);
  }
  return run_requested("run", flags.suite, flags.timing, modes, rows);
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "run the trials of a suite or of single cases");
  flags->suite.default_case = kDefaultCase;
  add_suite_flags(*command, flags->suite);
  add_timing_flags(*command, flags->timing);
  command->add_option("--mode", flags->modes,
                      "what is done, comma separated: verify, bench (default: verify, and bench of "
                      "suites that ask for it)");
  command->add_flag("--by-grid", flags->by_grid, "one table row for every grid");
  command->add_flag("--list-trials", flags->list_trials,
                    "run nothing and print a JSON line for every trial: id, case, grid, "
                    "implementation");
  command->add_option("--trials", flags->suite.trials,
                      "run only the trials whose ids are in this file, one a line, and no timings");
  add_supervise_flags(*command, flags->supervise);
  add_watch_flag(*command, flags->watch);
  command->footer(
      "A loaded implementation is verified with every value that an option of it offers: "
      "name, name:option=value, ...;\nname:option=value alone runs that one.");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
