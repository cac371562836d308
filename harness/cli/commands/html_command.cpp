// SPDX-License-Identifier: Apache-2.0
// Command `lossgrid html`: writes a report as one HTML file to open in a browser.
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/text/output.h"
#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/problem/case/checked_json.h"
#include "reports/file/report_reader.h"
#include "reports/html/html_page.h"
#include "reports/text/history_text.h"

namespace lossgrid {
namespace {

struct HtmlFlags {
  std::string report;
  std::string history;
  std::string search;
  std::string out;
};

/// Returns "folder/report.html" for "folder/report.json" and "folder/report.json.gz".
std::string place_beside(std::filesystem::path report) {
  if (report.extension() == ".gz") report.replace_extension();
  return report.replace_extension(".html").string();
}

/// Reads a file of lossgrid plan --search; null for "". Throws bad_input.
nlohmann::ordered_json read_search(const std::string& path) {
  if (path.empty()) return nullptr;
  nlohmann::ordered_json search = parse_json_file(read_text_file(path), path);
  if (!search.is_object() || search.value("schema", "") != "lossgrid.search/1") {
    throw_bad_input("{}: not a search of lossgrid plan --search --json", path);
  }
  return search;
}

ExitCode run(const HtmlFlags& flags) {
  nlohmann::ordered_json history;
  if (!flags.history.empty()) history = history_to_json(read_history(flags.history));
  const std::string page =
      html_report(read_report(flags.report), history, read_search(flags.search));
  const std::string out = flags.out.empty() ? place_beside(flags.report) : flags.out;
  write_output(out, page);
  if (out != "-") print("html: {}\n", out);
  return ExitCode::ok;
}

}  // namespace

void add_html_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<HtmlFlags>();
  CLI::App* command = app.add_subcommand(
      "html", "a report as one HTML file: verdict, checks, costs by grid, times, mutants");
  command->add_option("report", flags->report, "a report, or what a run that died left of it")
      ->required();
  command->add_option("--history", flags->history,
                      "draw the trends of this file too (lossgrid history append)");
  command->add_option("--search", flags->search,
                      "draw this search too (lossgrid plan --search --json): time over tp x cp");
  command->add_option(
      "-o,--out", flags->out,
      "the file to write, - for stdout (default: beside the report, with .html as its "
      "ending)");
  command->footer(
      "The file needs no network and holds the report, which it offers for download.\n"
      "Exit codes: 0 written, whatever the report says, 64 usage, 65 bad input,\n"
      "77 this build has no page (cmake -DLOSSGRID_HTML=OFF).");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
