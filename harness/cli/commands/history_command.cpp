// SPDX-License-Identifier: Apache-2.0
// Command `lossgrid history`: collects values of many runs in one file and shows their changes.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/allowed_values.h"
#include "harness/cli/text/output.h"
#include "reports/change/history.h"
#include "reports/file/report_json.h"
#include "reports/file/report_reader.h"
#include "reports/text/history_text.h"

namespace lossgrid {
namespace {

struct HistoryFlags {
  std::string report;
  std::string file;
  std::string format = "text";
};

ExitCode append(const HistoryFlags& flags) {
  const std::size_t lines = append_history(flags.file, read_report(flags.report));
  if (lines == 0) {
    print("{}: has this run already\n", flags.file);
  } else {
    print("{}: {} lines added\n", flags.file, lines);
  }
  return ExitCode::ok;
}

ExitCode show(const HistoryFlags& flags) {
  const std::vector<HistorySeries> history = read_history(flags.file);
  print_text(flags.format == "json" ? json_text(history_to_json(history)) + '\n'
                                    : format_history(history));
  return ExitCode::ok;
}

}  // namespace

void add_history_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<HistoryFlags>();
  CLI::App* command =
      app.add_subcommand("history", "values of many runs in one file, and where they changed");
  command->require_subcommand(1);

  CLI::App* append_command = command->add_subcommand(
      "append", "add the times and counters of a report, a line each, to the file");
  append_command->add_option("report", flags->report, "a report of run or bench")->required();
  append_command->callback([flags, &action] { action = [flags] { return append(*flags); }; });

  CLI::App* show_command = command->add_subcommand(
      "show", "times relative to the baseline of their run, counters that changed, and where");
  show_command->add_option("--format", flags->format, "text, json (default text)")
      ->check(allowed_values({"text", "json"}));
  show_command->callback([flags, &action] { action = [flags] { return show(*flags); }; });

  for (CLI::App* each : {append_command, show_command}) {
    each->add_option("--file", flags->file, "the history, such as history.jsonl")->required();
  }
  command->footer(
      "A change of a time is one of its mean that is certain (p < 0.001) and 2 % or more; of a "
      "counter any.\nChanges are shown and fail nothing: lossgrid compare and gate do.\n"
      "Try: lossgrid history append report.json --file history.jsonl");
}

}  // namespace lossgrid
