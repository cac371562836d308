// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include <CLI/CLI.hpp>

#include "harness/cli/flags/unexpected_argument.h"
#include "harness/cli/session.h"
#include "harness/cli/text/output.h"
#include "harness/comm/launcher.h"
#include "harness/core/clock.h"
#include "harness/core/process/environment.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

std::vector<std::string>& stored_command_line() {
  static std::vector<std::string> arguments;
  return arguments;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// clang-format off
constexpr const char* kDescription =
    "lossgrid verifies and measures distributed LLM losses: is it right, what does it cost, did "
    "that change.\n"
    "Implementations run on generated packed batches over TP x CP grids and are checked, forward "
    "and backward,\n"
    "against a float64 truth. Ranks are threads of this process, or the processes of mpirun, "
    "mpiexec or srun.";

constexpr const char* kFooter =
    "Exit codes: 0 all as it should be, 10 correctness, 11 slower than before or faster than the "
    "machine can be,\n"
    "12 memory or communication, 13 inconclusive where that fails, 14 a rank crashed or ran out "
    "of memory, or the\n"
    "meter is wrong, 15 hang, 64 usage, 65 bad input, 77 nothing ran. The worst of a run wins. "
    "129, 130, 143: SIGHUP,\n"
    "SIGINT (Ctrl-C), SIGTERM ended a run, behind its report.\n"
    "On a terminal tables have as many columns as fit (COLUMNS sets another width), and what did "
    "not pass is\n"
    "red, unless NO_COLOR is set; elsewhere they are whole and plain.\n"
    "Try: lossgrid run --suite smoke";
// clang-format on

/// Prints an error and returns its exit code. `own` is true for an error of this process alone,
/// false for an error of all processes that a launcher started.
int print_error(const std::string& message, ExitCode code, bool own = false) {
  if (is_printing_process()) {
    print_message(message);
  } else if (own) {
    print_message(fmt::format("rank {}: {}", launcher_rank(), message));
  }
  return static_cast<int>(code);
}

}  // namespace

void require_known_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw Error(ErrorCode::usage, unknown_name_message("command", name, known));
}

const std::vector<std::string>& command_line() {
  return stored_command_line();
}

RunRecord begin_run(const std::string& command, const std::string& suite) {
  RunRecord run;
  run.command = command;
  run.arguments = command_line();
  run.suite = suite;
  run.started_utc = utc_now();
  run.started_ns = steady_clock_ns();
  take_stage_times();
  run.environment = capture_environment();
  return run;
}

void end_run(RunRecord& run, ExitCode code, bool complete) {
  run.ended_utc = utc_now();
  run.wall_ns = steady_clock_ns() - run.started_ns;
  run.stages.add(take_stage_times());
  run.exit_code = static_cast<int>(code);
  run.status = complete ? "complete" : "partial";
}

std::vector<Suite> load_suites(const std::string& names) {
  std::vector<Suite> suites;
  for (const std::string& name : parse_list(names)) {
    for (const std::string& path : find_suite(name)) suites.push_back(read_suite(path));
  }
  return suites;
}

std::vector<std::string> parse_list(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : split(text, ',');
}

void leave_at_once(ExitCode code) {
  std::_Exit(end_session(end_output(static_cast<int>(code))));
}

namespace {

/// Runs `action` and prints its error. An error of all processes of a run is printed by the
/// printing process only; an error of a single process (no memory left) by that process.
int run_action(const CLI::App& app, const Action& action) {
  const bool on_all_processes = app.got_subcommand("run") || app.got_subcommand("bench") ||
                                app.got_subcommand("hunt") || app.got_subcommand("replay") ||
                                app.got_subcommand("calibrate");
  if (!on_all_processes && !is_printing_process()) return 0;
  try {
    const ExitCode code = action();
    flush_output();  // the end of a session would flush too, and hide a failure
    return end_session(static_cast<int>(code));
  } catch (const Error& error) {
    const ExitCode code = exit_code(error.code());
    // Without io, because only one process writes and the others would wait for it.
    const bool of_all = error.code() == ErrorCode::usage || error.code() == ErrorCode::bad_input;
    const int printed = print_error(error.what(), code, !of_all);
    return of_all ? end_session(printed) : printed;
  } catch (const std::bad_alloc&) {
    return print_error("out of memory", ExitCode::rank_crashed, true);
  } catch (const std::exception& error) {
    return print_error(error.what(), ExitCode::rank_crashed, true);
  }
}

/// Parses the command line and runs the subcommand.
int parse_and_run(int argc, char** argv) {
  stored_command_line().assign(argv + 1, argv + argc);
  CLI::App app(kDescription, "lossgrid");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("lossgrid ") + kVersion);
  app.require_subcommand(1);
  Action action;
  add_run_command(app, action);
  add_bench_command(app, action);
  add_hunt_command(app, action);
  add_mutants_command(app, action);
  add_replay_command(app, action);
  add_export_command(app, action);
  add_plan_command(app, action);
  add_calibrate_command(app, action);
  add_compare_command(app, action);
  add_gate_command(app, action);
  add_history_command(app, action);
  add_schema_command(app, action);
  add_validate_command(app, action);
  add_html_command(app, action);
  add_ab_command(app, action);
  add_list_command(app, action);
  add_completion_command(app, action);
  add_help_command(app, action);
  try {
    // The parser would only find that a subcommand is missing.
    if (argc > 1 && argv[1][0] != '-') require_known_command(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(success, text, text);
    if (is_printing_process()) print_text(text.str());
    return code;
  } catch (const Error& error) {
    return print_error(error.what(), exit_code(error.code()));
  } catch (const CLI::ExtrasError&) {
    return print_error(unexpected_argument_message(app), ExitCode::usage);
  } catch (const CLI::ParseError& error) {
    return print_error(std::string(error.what()) + " (see lossgrid --help)", ExitCode::usage);
  }
  return run_action(app, action);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  prepare_output();
  return end_output(parse_and_run(argc, argv));
}

}  // namespace lossgrid
