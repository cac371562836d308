// SPDX-License-Identifier: Apache-2.0
// Command `lossgrid gate`: judges reports by a policy, with an exit code for CI.
#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/allowed_values.h"
#include "harness/cli/text/output.h"
#include "harness/core/file.h"
#include "reports/change/gate.h"
#include "reports/file/report_json.h"
#include "reports/file/report_reader.h"

namespace lossgrid {
namespace {

struct GateFlags {
  std::vector<std::string> reports;
  std::string policy;
  bool strict = false;
  std::string format = "text";
  std::string out;
};

/// Returns the date in UTC, "2026-01-31".
std::string today() {
  using std::chrono::floor;
  const std::chrono::year_month_day date =
      floor<std::chrono::days>(std::chrono::system_clock::now());
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::string text_of(const GateResult& result, const std::string& format, const TextStyle& style) {
  if (format == "markdown") return gate_markdown(result);
  if (format == "json") return json_text(gate_to_json(result)) + '\n';
  return format_gate(result, style);
}

ExitCode run(const GateFlags& flags) {
  const Policy policy = read_policy(flags.policy);
  const RunRecord head = read_report(flags.reports.back());
  std::optional<RunRecord> base;
  if (flags.reports.size() == 2) base = read_report(flags.reports.front());
  const GateResult result = judge(base ? &*base : nullptr, head, policy, today());
  const TextStyle style = flags.out.empty() ? stdout_style() : TextStyle();
  const std::string text = text_of(result, flags.format, style);
  if (flags.out.empty()) {
    print_text(text, style);
  } else {
    write_file_atomically(flags.out, text);
  }
  return exit_code_of(result, flags.strict);
}

}  // namespace

void add_gate_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<GateFlags>();
  CLI::App* command =
      app.add_subcommand("gate", "judge a report, or one beside that of BASE, by a policy");
  command
      ->add_option("reports", flags->reports,
                   "BASE HEAD; or HEAD alone, for rules that have only limits")
      ->required()
      ->expected(1, 2);
  command
      ->add_option("--policy", flags->policy,
                   "a file of a policy (lossgrid schema policy), or exact, the one in "
                   "reports/policies/exact.json")
      ->required();
  command->add_flag("--strict", flags->strict,
                    "what cannot be told, and notes on the policy, end with 13");
  command->add_option("--format", flags->format, "text, markdown, json (default text)")
      ->check(allowed_values({"text", "markdown", "json"}));
  command->add_option("--out", flags->out, "write to this file instead of printing");
  command->footer(
      "Wrong, crashed and missing trials fail whatever the policy says, unless a known issue "
      "excuses them.\n"
      "Exit codes: 0 the policy is kept, 10 correctness, 11 time, 12 memory or communication, 13 "
      "inconclusive with --strict,\n14 a rank crashed or the run did not end, 15 hang, 64 usage, "
      "65 bad input. The worst wins.\n"
      "Try: lossgrid gate base.json head.json --policy exact");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
