// SPDX-License-Identifier: Apache-2.0
// Command `lossgrid export`: writes a stored report in the format of another program, or a case or
// all cases of a suite as bundles, for other programs and for replay.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/cases_flag.h"
#include "harness/cli/text/output.h"
#include "harness/cli/text/progress.h"
#include "harness/core/clock.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/bundle/rank_view.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/verify/checks/expected.h"
#include "reports/exports/exporter.h"
#include "reports/file/report_reader.h"

namespace lossgrid {
namespace {

struct ExportFlags {
  std::string report;
  std::string format;
  std::string text;
  std::string suite;
  std::string out;
  bool expected = false;
  std::string grid;
  bool per_rank = false;
  bool one_per_case = false;
};

[[noreturn]] void throw_usage(const std::string& message) {
  throw Error(ErrorCode::usage, "export: " + message);
}

/// True if inputs of the objective, or a teacher, are drawn around the truth of every row.
bool is_drawn(const CaseSpec& spec) {
  const ObjectiveNeeds needs =
      make_objective(spec.objective, spec.statistics, spec.predictions)->needs();
  return needs.rewards || needs.terms.divergence.is_any() ||
         std::find(needs.inputs.begin(), needs.inputs.end(), true) != needs.inputs.end();
}

/// Returns the grid of the rank views; nullopt without --per-rank. A bundle is one pack.
std::optional<Grid> grid_of_views(const ExportFlags& flags) {
  if (flags.per_rank == flags.grid.empty()) {
    throw_usage("--per-rank writes the views of the ranks of a grid: give --grid with it");
  }
  if (!flags.per_rank) return std::nullopt;
  const Grid grid = parse_grid(flags.grid);
  if (grid.dp > 1 || grid.pp > 1) {
    throw_usage(fmt::format("--per-rank takes a grid of tp, cp and sp, not {}", format_grid(grid)));
  }
  return grid;
}

/// Writes a bundle. Returns a line that names the file and its views.
std::string export_case(const CaseSpec& asked, bool with_expected, const std::optional<Grid>& views,
                        const std::string& path) {
  CaseSpec spec = asked;
  spec.objective = with_all_options(asked.objective);
  if (const auto reason = memory_shortage(bundle_memory_bytes(spec, with_expected))) {
    throw Error(ErrorCode::not_enough_memory, fmt::format("{}: {}", path, reason->text));
  }
  std::optional<BundleResults> expected;
  std::shared_ptr<const Problem> problem = std::make_shared<const Problem>(make_problem(spec));
  if (with_expected || is_drawn(spec)) {
    const PreparedProblem prepared = prepare(*problem);
    problem = prepared.problem;
    if (with_expected) {
      expected =
          expected_results(*problem, make_truth(*problem, prepared.rows, *prepared.objective, 0));
    }
  }
  write_bundle(path, *problem, expected, format_case(asked));
  std::string line =
      fmt::format("{}: {} sequences, {} tokens, vocabulary {}, {}", path, problem->sequences(),
                  problem->tokens(), spec.vocab, name(spec.dtype));
  if (!views) return line + "\n";
  for (int rank = 0; rank < views->ranks(); ++rank) {
    write_rank_view(rank_view_path(path, rank), *problem, *views, rank);
  }
  return line + fmt::format(", {} views of {}\n", views->ranks(), format_grid(*views));
}

/// Returns a file name made from the name of a case.
std::string file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return text;
}

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

/// Returns the free bytes of the file system of `folder`, which may not exist yet.
std::int64_t free_bytes(std::filesystem::path folder) {
  folder = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const std::uintmax_t bytes = std::filesystem::space(folder, error).available;
  return error ? kMostBytes
               : static_cast<std::int64_t>(std::min<std::uintmax_t>(bytes, kMostBytes));
}

/// Prints the number and size of the bundles. Throws io if the bundles do not fit.
void announce(std::size_t bundles, std::int64_t bytes, const std::string& folder) {
  constexpr std::int64_t kMuch = std::int64_t{1} << 30;
  const std::int64_t room = free_bytes(folder);
  const std::string count = fmt::format("{} bundle{}", bundles, bundles == 1 ? "" : "s");
  if (bytes > room) {
    throw Error(ErrorCode::io, fmt::format("{}: {}, about {}, and its file system has {} free",
                                           folder, count, format_bytes(bytes), format_bytes(room)));
  }
  fmt::print(stderr, "export: {}, about {}\n", count, format_bytes(bytes));
  if (bytes > kMuch) {
    fmt::print(stderr, "export: warning: more than {}, of the {} that are free at {}\n",
               format_bytes(kMuch), format_bytes(room), escape_controls(folder));
  }
}

ExitCode export_suite(const ExportFlags& flags) {
  const std::optional<Grid> views = grid_of_views(flags);
  std::vector<CaseSpec> cases;
  std::int64_t bytes = 0;
  for (const Suite& suite : load_suites(flags.suite)) {
    for (const CaseSpec& spec : suite.cases) {
      cases.push_back(spec);
      bytes += std::min(bundle_file_bytes(spec, flags.expected), kMostBytes - bytes);
      // Views hold the inputs once more; hidden states and weight once per rank.
      const int copies = !views ? 0 : spec.hidden > 0 ? std::max(views->tp, views->cp) : 1;
      for (int k = 0; k < copies; ++k) {
        bytes += std::min(bundle_file_bytes(spec, false), kMostBytes - bytes);
      }
    }
  }
  announce(cases.size(), bytes, flags.out);
  const std::int64_t began_ns = steady_clock_ns();
  std::int64_t written = 0;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const std::string line = export_case(
        cases[k], flags.expected, views,
        fmt::format("{}/{:02}_{}.safetensors", flags.out, k + 1, file_name(cases[k].name)));
    written += bundle_file_bytes(cases[k], flags.expected);
    std::optional<double> seconds_left;
    if (written < bytes) {
      seconds_left = static_cast<double>(steady_clock_ns() - began_ns) * 1e-9 *
                     static_cast<double>(bytes - written) / static_cast<double>(written);
    }
    print("{}{} {}", format_progress(k + 1, cases.size(), seconds_left, ""),
          seconds_left ? ":" : "", line);
    flush_output();
  }
  return ExitCode::ok;
}

ExitCode export_one_case(const ExportFlags& flags) {
  print_text(export_case(parse_case(flags.text), flags.expected, grid_of_views(flags), flags.out));
  return ExitCode::ok;
}

/// Appends markdown to the summary file of a GitHub Actions step, after the text of other steps.
void add_to_step_summary(const RunRecord& run) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (std::getenv("GITHUB_ACTIONS") == nullptr || path == nullptr) return;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << find_exporter("markdown").text(run) << std::flush;
  if (!file) throw Error(ErrorCode::io, fmt::format("{}: cannot be written", path));
}

/// Makes the median of every row its only sample, because chart tools treat repetitions as
/// benchmarks of the same name and keep the first only.
void keep_medians(RunRecord& run) {
  for (TimingRecord& timing : run.timings) {
    for (TimingRow& row : timing.rows) row.time.samples_ns = {row.time.median_ns};
  }
}

ExitCode export_report(const ExportFlags& flags) {
  const Exporter& exporter = find_exporter(flags.format);
  if (flags.one_per_case && exporter.name != "gbench") {
    throw_usage("--one-per-case goes with --to gbench; the others have one value anyway");
  }
  RunRecord run = read_report(flags.report);
  if (flags.one_per_case) keep_medians(run);
  const std::string text = exporter.text(run);
  write_output(flags.out.empty() ? "-" : flags.out, text);
  if (exporter.name == "github") add_to_step_summary(run);
  return ExitCode::ok;
}

ExitCode run(const ExportFlags& flags) {
  const int sources = !flags.report.empty() + !flags.text.empty() + !flags.suite.empty();
  if (sources != 1) {
    throw_usage(
        "takes a REPORT with --to FORMAT, or --case with --out FILE, or --suite with --out FOLDER");
  }
  if (!flags.report.empty()) {
    if (flags.format.empty()) throw_usage("a report needs --to FORMAT (lossgrid list exports)");
    if (flags.expected) throw_usage("--expected goes with --case or --suite");
    if (flags.per_rank || !flags.grid.empty()) {
      throw_usage("--grid and --per-rank go with --case or --suite");
    }
    return export_report(flags);
  }
  if (flags.one_per_case) throw_usage("--one-per-case goes with a report and --to gbench");
  if (!flags.format.empty()) throw_usage("--to goes with a report; a case becomes a bundle");
  if (flags.out.empty()) throw_usage("--out says where the bundle goes, of --suite the folder");
  return flags.suite.empty() ? export_one_case(flags) : export_suite(flags);
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand(
      "export", "write a report in another program's format, or batches of cases as bundles");
  command->add_option("report", flags->report,
                      "a report, or what a run that died left of it; only with --to");
  command->add_option("--to", flags->format,
                      "the format of a report: see lossgrid list exports; github also adds to "
                      "$GITHUB_STEP_SUMMARY in a job of GitHub Actions");
  command->add_flag("--one-per-case", flags->one_per_case,
                    "with --to gbench: medians only, for tools that draw charts; without it every "
                    "sample, for tests of two runs");
  command->add_option("--case", flags->text, "the case as \"key=value ...\"");
  command->add_option(
      "--suite", flags->suite,
      "all cases of a suite (lossgrid list suites), a bundle each; how much that is comes "
      "first, with a warning from 1 GiB on");
  add_cases_flag(*command);
  command->add_option("-o,--out", flags->out,
                      "the file to write, with --suite the folder; of a report also - for stdout, "
                      "the default");
  command->add_flag(
      "--expected", flags->expected,
      "with --case or --suite: add the float64 truth as expected.loss, .logprobs, .entropy, "
      ".grad_logits and metrics");
  command->add_flag("--per-rank", flags->per_rank,
                    "with --grid: beside each bundle B.safetensors, B.rank0.safetensors and so on "
                    "with what the ranks hold: shards, positions and labels by row");
  command->add_option("--grid", flags->grid, "the grid of --per-rank: tp2cp2, tp2cp2sp");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
