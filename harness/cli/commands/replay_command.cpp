// SPDX-License-Identifier: Apache-2.0
// lossgrid replay: runs implementations on grids on a real batch from a bundle.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/early_end.h"
#include "harness/cli/flags/backend_flags.h"
#include "harness/cli/flags/inject_flag.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/flags/recording_flags.h"
#include "harness/cli/session.h"
#include "harness/cli/text/output.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/run.h"
#include "harness/runner/trial/trial.h"
#include "harness/runner/verdict/bit_comparison.h"
#include "reports/file/report_writer.h"
#include "reports/text/table.h"

namespace lossgrid {
namespace {

struct ReplayFlags {
  std::string bundle;
  std::string implementations;
  std::vector<std::string> grids;
  // Axes of a single grid; 0: not given.
  int tp = 0;
  int cp = 0;
  int dp = 0;
  int pp = 0;
  bool sp = false;
  int microbatches = 1;
  std::string out;
  std::string report;
  std::string transport = "auto";
  BackendFlags backend;
  LoadFlags load;
  RecordingFlags recording;
  InjectFlag inject;
};

std::vector<Grid> requested_grids(const ReplayFlags& flags) {
  const bool by_axes = std::max({flags.tp, flags.cp, flags.dp, flags.pp}) > 0 || flags.sp;
  if (by_axes && !flags.grids.empty()) {
    throw Error(ErrorCode::usage,
                "--tp, --cp, --dp, --pp and --sp are one grid; --grid names it too");
  }
  const auto axis = [](int given) { return std::max(given, 1); };
  if (flags.grids.empty()) {
    return {Grid{axis(flags.tp), axis(flags.cp), axis(flags.dp), flags.sp, axis(flags.pp)}};
  }
  std::vector<Grid> grids;
  for (const std::string& list : flags.grids) {
    for (const std::string& text : parse_list(list)) grids.push_back(parse_grid(text));
  }
  return grids;
}

/// True if the bundle's expected values, which are for one pack, apply to the results on the grid.
bool has_expected_packs(const Objective& objective, std::int64_t microbatches, const Grid& grid) {
  return !objective.needs().packs_are_groups || (grid.dp == 1 && microbatches == 1);
}

/// One trial of the replay.
struct ReplayTrial {
  std::string implementation;
  Grid grid;
};

ExitCode run(const ReplayFlags& flags) {
  const std::optional<Fault> fault = requested_fault(flags.inject, flags.backend.backend);
  Bundle bundle = read_bundle(flags.bundle);
  std::vector<std::string> names = flags.implementations.empty()
                                       ? default_implementations(bundle.problem.spec.hidden > 0)
                                       : parse_list(flags.implementations);
  const std::vector<Grid> grids = requested_grids(flags);
  if (!flags.out.empty() && names.size() * grids.size() != 1) {
    throw Error(
        ErrorCode::usage,
        "--out holds the results of one implementation on one grid; give one --impl and one "
        "--grid");
  }
  load_requested(flags.load);
  if (flags.out.empty()) names = with_offered_values(names);
  std::vector<ReplayTrial> trials;
  for (const std::string& name : names) {
    for (const Grid& grid : grids) trials.push_back({name, grid});
  }
  Suite suite;
  bundle.problem.spec.microbatches = flags.microbatches;
  suite.grids = grids;
  suite.implementations = names;
  suite.cases = {bundle.problem.spec};
  const Ranks ranks = start_ranks(flags.transport);
  const Backend backend = requested_backend(flags.backend, ranks);
  require_runnable({suite}, rank_limit({suite}, 0, ranks.limit() == 0), ranks);

  const PreparedProblem prepared = prepare(std::move(bundle.problem));
  const auto expected =
      bundle.expected ? std::make_shared<const BundleResults>(*bundle.expected) : nullptr;
  if (bundle.nan_or_inf_logits > 0 && ranks.reports()) {
    print_message(fmt::format("{}: {} logits are NaN or infinite, in rows that nothing trains on",
                              flags.bundle, bundle.nan_or_inf_logits));
  }
  for (const Grid& grid : grids) {
    if (!expected || has_expected_packs(*prepared.objective, flags.microbatches, grid)) continue;
    if (!ranks.reports()) continue;
    print_message(
        fmt::format("{}: expected values are of one pack, and {} is not compared with "
                    "them: the loss depends on the packs",
                    flags.bundle, format_grid(grid)));
  }
  const std::shared_ptr<RunRecording> recording = open_recording(flags.recording, ranks);
  for (const auto& [name, grid] : trials) require_trial(prepared, name, grid);
  std::vector<TrialRecord> planned;
  for (const auto& [name, grid] : trials) {
    planned.push_back(describe_trial(*prepared.problem, name, grid, backend));
    planned.back().case_name = flags.bundle;
  }
  RunRecord record = begin_run("replay", flags.bundle);
  std::optional<ReportWriter> writer = open_report(flags.report, record, ranks);
  const auto write_report = [&](ExitCode code, bool is_complete) {
    end_run(record, code, is_complete);
    if (writer) writer->finish(record);
  };
  const auto print_report = [&](const RecordingEnd& recorded) {
    if (!ranks.reports()) return;
    const TextStyle style = stdout_style();
    print_text(format_trials_table(record, TableRows::grids_folded, style) +
                   format_chunk_table(record, style) + format_summary(record, style),
               style);
    print_recording(recording.get(), recorded);
  };
  std::string in_progress;
  const auto report_interrupted = [&](ExitCode code) {
    add_interrupted(planned, in_progress, record.trials);
    const RecordingEnd recorded = close_recording(recording.get(), ranks, true);
    write_report(code, false);
    print_report(recorded);
  };
  std::optional<EarlyEnd> early_end;
  early_end.emplace(ranks.reports() ? report_interrupted : std::function<void(ExitCode)>());
  bool must_end = false;
  std::int64_t number = 0;
  std::map<std::string, BitComparison> bits;  // by implementation
  for (const auto& [name, grid] : trials) {
    TrialSetup setup = make_trial(prepared, name, grid, backend);
    if (fault && (fault->trial == 0 || fault->trial == number + 1)) setup.fault = fault;
    if (has_expected_packs(*prepared.objective, flags.microbatches, grid)) {
      setup.expected = expected;
    }
    setup.keep_outputs = !flags.out.empty() || setup.expected != nullptr;
    const std::string id = describe_trial(*setup.problem, name, grid, backend).id;
    setup.recording =
        record_trial(recording, "trial", ++number, format_grid(grid) + "_" + name, id, name);
    early_end->step([&] { in_progress = id; });
    TrialOutcome trial = run_trial(setup, RunOptions().deadline, ranks);
    trial.record.case_name = flags.bundle;
    bits[name].judge(trial.record);
    if (trial.outputs && !flags.out.empty()) {
      write_results(flags.out, prepared.problem->tokens(), *trial.outputs);
    }
    early_end->step([&] {
      if (writer) writer->add(trial.record);
      record.trials.push_back(trial.record);
      record.stages.add(take_stage_times());
    });
    must_end = trial.must_end;
    if (must_end) break;
  }
  early_end->close();
  if (must_end) {
    add_not_run(planned, end_of_run_after(record.trials.last()).text, record.trials);
  }
  const RecordingEnd recorded = close_recording(recording.get(), ranks, must_end);
  const bool missed = !must_end && has_missed(fault, ranks);
  const ExitCode code = missed ? ExitCode::usage : recorded.exit_code(exit_code_of(record.trials));
  write_report(code, !must_end);
  early_end.reset();
  print_report(recorded);
  if (must_end) leave_at_once(code);
  if (missed) refuse_missed(flags.inject);
  return code;
}

}  // namespace

void add_replay_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = app.add_subcommand(
      "replay", "run implementations on the packed batch of a bundle (safetensors)");
  command->add_option("bundle", flags->bundle, "the bundle file")->required();
  command->add_option("--impl", flags->implementations,
                      "implementations, comma separated (default: of a bundle with logits " +
                          join(default_implementations(false), ", ") + "; with hidden states " +
                          join(default_implementations(true), ", ") +
                          "); a loaded one also with every other value that an option offers");
  add_load_flags(*command, flags->load);
  command
      ->add_option("--grid", flags->grids,
                   "process grids, comma separated or repeated: tp2cp4,tp1cp2dp2pp2,tp2cp2sp "
                   "(default: tp1cp1); --tp, --cp, --dp, --pp and --sp give one instead")
      ->allow_extra_args(false);
  command->add_option("--tp", flags->tp, "ranks that share the vocabulary")
      ->check(CLI::Range(1, kMostRanks));
  command->add_option("--cp", flags->cp, "ranks that share the sequences")
      ->check(CLI::Range(1, kMostRanks));
  command->add_option("--dp", flags->dp, "ranks that share the batch by whole sequences")
      ->check(CLI::Range(1, kMostRanks));
  command->add_option("--pp", flags->pp, "pipeline stages, of which the last has the loss")
      ->check(CLI::Range(1, kMostRanks));
  command->add_flag("--sp", flags->sp,
                    "sequence parallelism: hidden states are split by rows over the tp ranks");
  command
      ->add_option("--microbatches", flags->microbatches, "packs that every dp rank goes through")
      ->check(CLI::Range(1, 1024));
  command->add_option("--out", flags->out,
                      "write loss, logprobs, gradients (F64, unsharded) and metrics here; then "
                      "options keep their defaults");
  command->add_option("--report", flags->report, "write the JSON report here (.json.gz: packed)");
  add_transport_flag(*command, flags->transport);
  add_backend_flags(*command, flags->backend);
  add_recording_flags(*command, flags->recording);
  add_inject_flag(*command, flags->inject);
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
