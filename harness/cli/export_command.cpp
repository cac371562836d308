// SPDX-License-Identifier: Apache-2.0
// lossgrid export: a stored report in the format of another program, or a case as a bundle, for
// other programs and for replay.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/core/file.h"
#include "harness/problem/bundle.h"
#include "harness/runner/memory_plan.h"
#include "harness/runner/problem_cache.h"
#include "harness/verify/expected.h"
#include "reports/exporter.h"
#include "reports/report_reader.h"

namespace lossgrid {
namespace {

struct ExportFlags {
  std::string report;
  std::string format;
  std::string text;
  std::string out;
  bool expected = false;
  bool one_per_case = false;
};

[[noreturn]] void throw_usage(const std::string& message) {
  throw Error(ErrorCode::usage, "export: " + message);
}

ExitCode export_case(const ExportFlags& flags) {
  const CaseSpec spec = parse_case(flags.text);
  const std::string too_big = why_too_big(case_memory_bytes(spec));
  if (!too_big.empty()) throw Error(ErrorCode::not_enough_memory, too_big);
  const PreparedProblem prepared = prepare(make_problem(spec));
  std::optional<BundleResults> expected;
  if (flags.expected) {
    expected = expected_results(
        *prepared.problem, make_truth(*prepared.problem, prepared.rows, *prepared.objective, 0));
  }
  write_bundle(flags.out, *prepared.problem, expected);
  fmt::print("{}: {} sequences, {} tokens, vocabulary {}, {}\n", flags.out,
             prepared.problem->sequences(), prepared.problem->tokens(), spec.vocab,
             name(spec.dtype));
  return ExitCode::ok;
}

/// GitHub shows what stands in the file that a step is given; other steps' text stays.
void add_to_step_summary(const RunRecord& run) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (std::getenv("GITHUB_ACTIONS") == nullptr || path == nullptr) return;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << find_exporter("markdown").text(run) << std::flush;
  if (!file) throw Error(ErrorCode::io, fmt::format("{}: cannot be written", path));
}

/// Every row as if its median were its only sample: chart tools take repetitions for benchmarks of
/// the same name, of which they keep the first.
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
  if (flags.out.empty() || flags.out == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_file_atomically(flags.out, text);
  }
  if (exporter.name == "github") add_to_step_summary(run);
  return ExitCode::ok;
}

ExitCode run(const ExportFlags& flags) {
  if (flags.report.empty() == flags.text.empty()) {
    throw_usage("takes a REPORT with --to FORMAT, or --case with --out FILE");
  }
  if (!flags.report.empty()) {
    if (flags.format.empty()) throw_usage("a report needs --to FORMAT (lossgrid list exports)");
    if (flags.expected) throw_usage("--expected goes with --case");
    return export_report(flags);
  }
  if (flags.one_per_case) throw_usage("--one-per-case goes with a report and --to gbench");
  if (!flags.format.empty()) throw_usage("--to goes with a report; a case becomes a bundle");
  if (flags.out.empty()) throw_usage("--case needs --out FILE, the bundle to write");
  return export_case(flags);
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand(
      "export", "write a report in another program's format, or the batch of a case as a bundle");
  command->add_option("report", flags->report,
                      "a report, or what a run that died left of it; only with --to");
  command->add_option("--to", flags->format,
                      "the format of a report: see lossgrid list exports; github also adds to "
                      "$GITHUB_STEP_SUMMARY in a job of GitHub Actions");
  command->add_flag("--one-per-case", flags->one_per_case,
                    "with --to gbench: medians only, for tools that draw charts; without it every "
                    "sample, for tests of two runs");
  command->add_option("--case", flags->text, "the case as \"key=value ...\"");
  command->add_option("-o,--out", flags->out,
                      "the file to write; of a report also - for stdout, the default");
  command->add_flag("--expected", flags->expected,
                    "with --case: add the float64 truth as expected.loss, .logprobs, .grad_logits "
                    "and metrics");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
