// SPDX-License-Identifier: Apache-2.0
// Command `lossgrid compare`: lists the changes from one report to another, with an exit code for
// CI.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/allowed_values.h"
#include "harness/cli/text/output.h"
#include "harness/core/file.h"
#include "reports/change/compare.h"
#include "reports/file/report_json.h"
#include "reports/file/report_reader.h"

namespace lossgrid {
namespace {

struct CompareFlags {
  std::string base;
  std::string head;
  double time_margin_ratio = 0.10;
  bool strict = false;
  std::string format = "text";
  std::string out;
};

std::string text_of(const Comparison& comparison, const std::string& format,
                    const TextStyle& style) {
  if (format == "markdown") return comparison_markdown(comparison);
  if (format == "json") return json_text(comparison_to_json(comparison)) + '\n';
  return format_comparison(comparison, style);
}

ExitCode run(const CompareFlags& flags) {
  const Comparison comparison =
      compare_reports(read_report(flags.base), read_report(flags.head), flags.time_margin_ratio);
  const TextStyle style = flags.out.empty() ? stdout_style() : TextStyle();
  const std::string text = text_of(comparison, flags.format, style);
  if (flags.out.empty()) {
    print_text(text, style);
  } else {
    write_file_atomically(flags.out, text);
  }
  return exit_code_of(comparison, flags.strict);
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand(
      "compare", "what changed from one report to another: verdicts, counters, times");
  command->add_option("base", flags->base, "the report that HEAD is compared with")->required();
  command->add_option("head", flags->head, "the report that is judged")->required();
  command
      ->add_option("--time-margin", flags->time_margin_ratio,
                   "part that a time may grow by, relative to the reference of its run: 0.1 on "
                   "shared cores, 0.03 on a dedicated machine (default 0.1)")
      ->check(CLI::Range(0.0, 10.0));
  command->add_flag("--strict", flags->strict, "a time that cannot be told ends with 13");
  command->add_option("--format", flags->format, "text, markdown, json (default text)")
      ->check(allowed_values({"text", "markdown", "json"}));
  command->add_option("--out", flags->out, "write to this file instead of printing");
  command->footer(
      "Exit codes: 0 nothing is worse, 10 a trial is wrong or missing, 11 a time is worse, 12 "
      "memory or communication grew,\n13 inconclusive with --strict, 14 a rank crashed or HEAD did "
      "not come to its end, 15 hang, 64 usage,\n65 bad input or nothing in common. The worst "
      "wins.\n"
      "What improved never fails. Counters are exact: any growth fails.\n"
      "Try: lossgrid compare base.json head.json --format markdown");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
