// SPDX-License-Identifier: Apache-2.0
// The subcommands of the executable: each file adds one to the parser and runs it when chosen.
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

/// A chosen subcommand puts what it does here; it returns the exit code.
using Action = std::function<ExitCode()>;

void add_run_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_mutants_command(CLI::App& app, Action& action);
void add_replay_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_gate_command(CLI::App& app, Action& action);
void add_history_command(CLI::App& app, Action& action);
void add_schema_command(CLI::App& app, Action& action);
void add_validate_command(CLI::App& app, Action& action);
void add_html_command(CLI::App& app, Action& action);
void add_ab_command(CLI::App& app, Action& action);
void add_list_command(CLI::App& app, Action& action);
void add_help_command(CLI::App& app, Action& action);

/// Throws usage with the nearest command when `app` has none of that name.
void require_known_command(const CLI::App& app, const std::string& name);

/// Parses the command line, runs the subcommand, and prints errors as one line on stderr.
int run_command_line(int argc, char** argv);

/// The command line as it was given, for reports.
const std::vector<std::string>& command_line();

/// A run record with command, arguments, time and environment filled in.
RunRecord begin_run(const std::string& command, const std::string& suite);

/// Sets the end, the exit code and the status of a run.
void end_run(RunRecord& run, ExitCode code, bool complete);

/// The suites of names, paths or folders, comma separated.
std::vector<Suite> load_suites(const std::string& names);

/// The sizes of a model's last layer, in cases/models.json.
struct ModelShape {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::string source;  // address of the configuration that says so
};

/// Throws bad_input that names the file and the entry.
std::vector<ModelShape> load_models();

/// Throws bad_input with the nearest name.
ModelShape find_model(const std::string& name);

/// "a,b" -> {"a", "b"}
std::vector<std::string> parse_list(const std::string& text);

/// Leaves the process with `code`, after all has been reported, and destroys nothing: a rank hangs
/// in a thread that cannot be ended, or its GPU is lost and nobody may call it.
[[noreturn]] void leave_at_once(ExitCode code);

}  // namespace lossgrid
