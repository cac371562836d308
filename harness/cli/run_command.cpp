// SPDX-License-Identifier: Apache-2.0
// lossgrid run: the trials of a suite or of cases given on the command line.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/runner/run.h"
#include "harness/runner/timing.h"
#include "reports/report_writer.h"
#include "reports/table.h"

namespace lossgrid {
namespace {

struct RunFlags {
  std::string suite;
  std::vector<std::string> cases;
  std::string implementations;
  std::string grids;
  std::string report;
  std::string inject;
  int seeds = 1;
  int max_ranks = 64;
  int timing_rounds = 0;
  double timeout_s = 300;
  bool by_grid = false;
  bool quiet = false;
};

std::vector<CaseSpec> with_seeds(const std::vector<CaseSpec>& cases, int seeds) {
  std::vector<CaseSpec> all;
  for (int k = 0; k < seeds; ++k) {
    for (CaseSpec spec : cases) {
      spec.seed += static_cast<std::uint64_t>(k);
      if (k > 0) spec.name += fmt::format(" seed={}", spec.seed);
      all.push_back(spec);
    }
  }
  return all;
}

std::vector<Suite> requested_suites(const RunFlags& flags) {
  if (flags.suite.empty() == flags.cases.empty()) {
    throw Error(ErrorCode::usage, "run needs either --suite or --case");
  }
  std::vector<Suite> suites;
  if (!flags.suite.empty()) {
    suites = load_suites(flags.suite);
  } else {
    Suite suite;
    suite.grids = {Grid{}};
    for (const std::string& text : flags.cases) {
      for (const CaseSpec& spec : parse_sweep(text)) suite.cases.push_back(spec);
    }
    suite.implementations =
        default_implementations(std::all_of(suite.cases.begin(), suite.cases.end(),
                                            [](const CaseSpec& spec) { return spec.hidden > 0; }));
    suites = {suite};
  }
  for (Suite& suite : suites) {
    if (!flags.implementations.empty()) suite.implementations = parse_list(flags.implementations);
    if (!flags.grids.empty()) {
      suite.grids.clear();
      for (const std::string& text : parse_list(flags.grids))
        suite.grids.push_back(parse_grid(text));
    }
    suite.cases = with_seeds(suite.cases, flags.seeds);
    if (flags.timing_rounds > 0) {
      suite.timing = TimingRequest{flags.timing_rounds, suite.implementations.front()};
    }
    for (CaseSpec& spec : suite.cases) {
      if (spec.name.empty()) spec.name = format_case(spec);
    }
  }
  return suites;
}

std::size_t trials_of(const std::vector<Suite>& suites) {
  std::size_t trials = 0;
  for (const Suite& suite : suites) {
    trials += suite.cases.size() * suite.grids.size() * suite.implementations.size();
  }
  return trials;
}

/// One line on a terminal that counts up; nothing when stderr is a file or a pipe.
class Progress {
 public:
  Progress(std::size_t total, bool quiet) : total_(total), shown_(!quiet && isatty(2) != 0) {}
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  void step(const std::string& what) {
    ++done_;
    if (shown_) std::fprintf(stderr, "\r\033[K[%zu/%zu] %.80s", done_, total_, what.c_str());
  }

 private:
  std::size_t total_;
  std::size_t done_ = 0;
  bool shown_;
};

ExitCode run(const RunFlags& flags) {
  const std::vector<Suite> suites = requested_suites(flags);
  require_runnable(suites, flags.max_ranks);
  RunOptions options;
  options.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_s * 1000));
  if (!flags.inject.empty()) options.fault = parse_fault(flags.inject);

  RunRecord record = begin_run("run", flags.suite);
  std::optional<ReportWriter> writer;
  if (!flags.report.empty()) writer.emplace(flags.report, record);

  bool rank_hung = false;
  {
    Progress progress(trials_of(suites), flags.quiet);
    ProblemCache problems;
    rank_hung = run_suites(suites, options, problems, [&](const TrialRecord& trial) {
      progress.step(trial.id);
      if (writer) writer->add(trial);
      record.trials.push_back(trial);
      return true;
    });
    if (!rank_hung) {
      rank_hung = time_suites(suites, options.deadline, problems, [&](const TimingRecord& timing) {
        record.timings.push_back(timing);
      });
    }
  }
  const ExitCode code = worst(exit_code_of(record.trials), exit_code_of(record.timings));
  end_run(record, code, !rank_hung);
  if (writer) writer->finish(record);
  const TableRows rows = flags.by_grid ? TableRows::one_per_grid : TableRows::grids_folded;
  if (!flags.quiet) {
    fmt::print("{}{}{}", format_trials_table(record, rows), format_memory_table(record),
               format_chunk_table(record));
    fmt::print("{}", format_timing_table(record.timings));
  }
  fmt::print("{}", format_summary(record));
  if (writer) fmt::print("report: {}\n", writer->path());
  if (rank_hung) leave_hung_process(code);
  return code;
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "run the trials of a suite or of single cases");
  command->add_option("--suite", flags->suite,
                      "suite by name (see lossgrid list suites), file or folder");
  command->add_option("--case", flags->cases,
                      "a case as \"key=value ...\"; key=[a,b] sweeps; may be repeated "
                      "(keys: lossgrid list keys)");
  command->add_option("--impl", flags->implementations,
                      "implementations, comma separated, with options as name:option=value "
                      "(default: the suite's; of cases all that start from logits, or from hidden "
                      "states where every case does)");
  command->add_option(
      "--grid", flags->grids,
      "process grids, comma separated: tp2cp4,tp1cp2dp2,tp2cp2sp (default: the suite's, or "
      "tp1cp1)");
  command->add_option("--report", flags->report,
                      "write the JSON report here; finished trials go to FILE.partial.jsonl while "
                      "the run goes on");
  command
      ->add_option("--seeds", flags->seeds, "run every case with this many seeds from its own on")
      ->check(CLI::Range(1, 10000));
  command->add_option("--max-ranks", flags->max_ranks, "refuse grids with more ranks (default 64)")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--timing-rounds", flags->timing_rounds,
                   "after the trials, time all implementations of a case in turn, this many times; "
                   "ratios are to the first one (default: as the suite says, or not at all)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--timeout", flags->timeout_s, "deadline of one trial in seconds (default 300)")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--inject", flags->inject,
                      "make a rank misbehave, to see what the harness does: "
                      "rank=2,call=3,kind=throw|hang|leave|die");
  command->add_flag("--by-grid", flags->by_grid, "one table row for every grid");
  command->add_flag("--quiet", flags->quiet, "print only the summary and what did not pass");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
