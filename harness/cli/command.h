// SPDX-License-Identifier: Apache-2.0
// Subcommands of the executable, and functions that several of them share. Each file in commands/
// adds one subcommand to the parser and runs it if it is chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/problem/case/suite.h"
#include "reports/record/record.h"

namespace CLI {
class App;
}

namespace lossgrid {

/// Function that does the work of the chosen subcommand and returns the exit code.
using Action = std::function<ExitCode()>;

void add_run_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_hunt_command(CLI::App& app, Action& action);
void add_mutants_command(CLI::App& app, Action& action);
void add_replay_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_calibrate_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_gate_command(CLI::App& app, Action& action);
void add_history_command(CLI::App& app, Action& action);
void add_schema_command(CLI::App& app, Action& action);
void add_validate_command(CLI::App& app, Action& action);
void add_html_command(CLI::App& app, Action& action);
void add_ab_command(CLI::App& app, Action& action);
void add_list_command(CLI::App& app, Action& action);
void add_completion_command(CLI::App& app, Action& action);
void add_help_command(CLI::App& app, Action& action);

/// Returns the kinds that `lossgrid list` accepts.
std::vector<std::string> listable_kinds();

/// Throws usage with the nearest command if `app` has no command `name`.
void require_known_command(const CLI::App& app, const std::string& name);

/// Parses the command line, runs the subcommand, and prints errors as one line on stderr.
int run_command_line(int argc, char** argv);

/// Returns the arguments of this process, for reports.
const std::vector<std::string>& command_line();

/// Returns a run record with command, arguments, time and environment.
RunRecord begin_run(const std::string& command, const std::string& suite);

/// Sets the end, the exit code and the status of a run.
void end_run(RunRecord& run, ExitCode code, bool complete);

/// Reads suites by names, paths or folders, comma separated.
std::vector<Suite> load_suites(const std::string& names);

/// Splits "a,b" into {"a", "b"}; an empty text has no elements.
std::vector<std::string> parse_list(const std::string& text);

/// Ends the process with `code` without destroying anything, because a rank hangs in a thread that
/// cannot be ended, or its GPU is lost and must not be called. Everything has been reported before.
[[noreturn]] void leave_at_once(ExitCode code);

}  // namespace lossgrid
