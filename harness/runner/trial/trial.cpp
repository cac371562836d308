// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/trial/trial.h"

#include <algorithm>

#include "harness/core/text.h"
#include "harness/loss/framework_scale.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/partition.h"
#include "harness/runner/plan/memory_plan.h"
#include "harness/runner/trial/gathered_outputs.h"
#include "harness/runner/trial/rank_trial.h"
#include "harness/runner/verdict/desync_report.h"
#include "harness/runner/verdict/rank_archive.h"
#include "harness/runner/verdict/rank_merge.h"
#include "harness/runner/verdict/refusal.h"
#include "harness/verify/expected.h"

namespace lossgrid {
namespace {

/// Why the trial cannot run here; empty when it can. A rank of the last pipeline stage holds one
/// microbatch at a time, the others none.
std::string why_skipped(const TrialSetup& setup) {
  std::string unsupported;
  std::vector<std::int64_t> bytes(setup.parts.size(), 0);  // of a rank, by dp rank
  for_each_part(setup, [&](std::size_t d, const LossProblem& loss_problem) {
    if (unsupported.empty()) unsupported = setup.implementation->why_unsupported(loss_problem);
    if (!unsupported.empty()) return;
    bytes[d] = std::max(bytes[d], trial_rank_bytes(loss_problem, *setup.implementation));
  });
  if (!unsupported.empty()) return unsupported;
  const Grid& grid = setup.grid;
  std::vector<std::int64_t> rank_bytes(static_cast<std::size_t>(grid.ranks()), 0);
  for (int r = grid.first_of_last_stage(); r < grid.ranks(); ++r) {
    rank_bytes[static_cast<std::size_t>(r)] = bytes[static_cast<std::size_t>(grid.dp_rank(r))];
  }
  return why_ranks_too_big(setup.backend, rank_bytes, setup.over_nccl);
}

void record_failure(const RanksOutcome& outcome, TrialRecord& record) {
  const auto first = static_cast<std::size_t>(std::max(0, outcome.first_failed_rank));
  const RankOutcome& failed = outcome.ranks[first];
  record.first_failed_rank = outcome.first_failed_rank;
  record.status = status_of(failed.code);
  const std::string_view phase = name(failed.trace.phase);
  record.reason =
      fmt::format("rank {}{}{}: {}", first, phase.empty() ? "" : " in ", phase, failed.message);
  if (was_cut_short(record.status)) record.ranks = desync_report(outcome);
}

/// The text of a case; a bundle's path and how it is cut.
std::string identity_of(const Problem& problem) {
  if (problem.source.starts_with("--case")) return format_case(problem.spec);
  if (problem.spec.microbatches == 1) return problem.source;
  return fmt::format("{} microbatches={}", problem.source, problem.spec.microbatches);
}

/// " --load FILE --impl mine" for an implementation that was loaded.
std::string implementation_flags(const std::string& implementation) {
  const ImplementationEntry* entry = find_implementation(implementation);
  const bool is_loaded = entry != nullptr && !entry->load_flags.empty();
  return fmt::format("{} --impl {}", is_loaded ? ' ' + entry->load_flags : "",
                     shell_word(implementation));
}

std::string reproduce_replay(const Problem& problem, const std::string& implementation,
                             const Grid& grid) {
  std::string line = fmt::format("lossgrid replay {}{} --grid {}", shell_word(problem.source),
                                 implementation_flags(implementation), format_grid(grid));
  if (problem.spec.microbatches > 1) {
    line += fmt::format(" --microbatches {}", problem.spec.microbatches);
  }
  return line;
}

}  // namespace

TrialStatus status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
      return TrialStatus::timeout;
    case ErrorCode::unsupported:
      return TrialStatus::skipped;
    case ErrorCode::not_enough_memory:
      return TrialStatus::out_of_memory;
    case ErrorCode::device_lost:
    case ErrorCode::process_died:
      return TrialStatus::crashed;
    default:
      return TrialStatus::error;
  }
}

TimingStatus timing_status(TrialStatus status) {
  switch (status) {
    case TrialStatus::timeout:
      return TimingStatus::timeout;
    case TrialStatus::skipped:
      return TimingStatus::skipped;
    case TrialStatus::crashed:
      return TimingStatus::crashed;
    case TrialStatus::out_of_memory:
      return TimingStatus::out_of_memory;
    default:
      return TimingStatus::error;
  }
}

std::string trial_id(const std::string& problem, const Grid& grid,
                     const std::string& implementation, Backend backend) {
  return fmt::format("{}|{}|{}|{}", problem, format_grid(grid), implementation, name(backend));
}

std::string reproduce_case(const std::string& source, const std::string& implementation,
                           const Grid& grid, Backend backend) {
  return fmt::format("lossgrid run{} --grid {} {}{}", implementation_flags(implementation),
                     format_grid(grid), source, backend_flag(backend));
}

TrialRecord describe_trial(const Problem& problem, const std::string& implementation,
                           const Grid& grid, Backend backend) {
  TrialRecord record;
  const bool from_case = problem.source.starts_with("--case");
  record.id = trial_id(identity_of(problem), grid, implementation, backend);
  record.backend = name(backend);
  record.case_name = problem.spec.name;
  record.case_parameters = case_to_json(problem.spec);
  record.tp = grid.tp;
  record.cp = grid.cp;
  record.dp = grid.dp;
  record.pp = grid.pp;
  record.sp = grid.sp;
  record.microbatches = static_cast<int>(problem.spec.microbatches);
  record.implementation = implementation;
  record.tokens = problem.tokens();
  for (const std::uint8_t valid : problem.row_valid()) record.valid_tokens += valid;
  if (from_case) {
    record.reproduce = reproduce_case(problem.source, implementation, grid, backend);
    return record;
  }
  record.reproduce = reproduce_replay(problem, implementation, grid);
  record.reproduce += backend_flag(backend);
  return record;
}

std::vector<Check> check_outputs(const TrialSetup& setup, const BundleResults& expected,
                                 const BundleResults& outputs) {
  const Outputs given = setup.implementation->describe().outputs;
  BundleResults asked = expected;
  std::erase_if(asked.metrics, [&](const auto& metric) { return !given.has_metric(metric.first); });
  return check_expected(*setup.problem, *setup.truth, serial_adds(setup), asked, outputs,
                        declared_roundings(setup));
}

void require_trial(const PreparedProblem& prepared, const std::string& implementation,
                   const Grid& grid) {
  const Problem& problem = *prepared.problem;
  require_fits(problem, grid);
  const std::unique_ptr<LossImplementation> made = make_implementation(implementation);
  if (!why_not_given(*made, problem, grid).empty()) return;
  const auto padded = padded_for(prepared.problem, made->describe().padding);
  const PackedBatch batch = pack(*padded, grid);
  made->require_fits(make_loss_problem(*padded, batch, grid, *prepared.objective));
}

TrialSetup make_trial(const PreparedProblem& prepared, const std::string& implementation,
                      const Grid& grid, Backend backend) {
  require_trial(prepared, implementation, grid);
  TrialSetup setup;
  setup.problem = prepared.problem;
  setup.objective = prepared.objective;
  if (const auto framework = stated_framework(prepared.problem->spec.framework)) {
    setup.objective =
        with_framework(prepared.objective, *framework, scale_sizes(*prepared.problem, grid));
  }
  setup.implementation_text = implementation;
  setup.implementation = make_implementation(implementation);
  setup.grid = grid;
  setup.backend = backend;
  // Such a trial is skipped: it needs neither truth nor parts.
  if (!why_not_given(*setup.implementation, *setup.problem, grid).empty()) return setup;
  if (no_device(backend)) return setup;
  setup.problem = padded_for(prepared.problem, setup.implementation->describe().padding);
  setup.truth =
      truth_of(prepared, serial_adds(setup), setup.implementation->describe().rounds_logits);
  const auto plans =
      partition(*prepared.problem, grid.dp, prepared.objective->needs().sequences_per_unit);
  const auto microbatches = static_cast<int>(prepared.problem->spec.microbatches);
  const bool whole = grid.dp == 1 && microbatches == 1;
  for (const std::vector<MicrobatchPlan>& of_rank : plans) {
    std::vector<TrialPart>& parts = setup.parts.emplace_back();
    for (const MicrobatchPlan& plan : of_rank) {
      if (whole) {
        parts.push_back({setup.problem, setup.truth});
        continue;
      }
      auto part =
          std::make_shared<const Problem>(take_part(*setup.problem, plan, microbatches, grid.dp));
      auto truth = std::make_shared<const Truth>(take_part(*setup.truth, *part));
      parts.push_back({std::move(part), std::move(truth)});
    }
  }
  return setup;
}

TrialOutcome run_trial(const TrialSetup& made, std::chrono::milliseconds deadline,
                       const Ranks& ranks) {
  const auto shared = std::make_shared<TrialSetup>(made);
  shared->over_nccl = ranks.has_nccl();
  const TrialSetup& setup = *shared;
  TrialOutcome trial;
  trial.record =
      describe_trial(*setup.problem, setup.implementation_text, setup.grid, setup.backend);
  trial.record.transport = ranks.transport();
  if (ranks.has_nccl()) trial.record.reproduce += " --transport nccl";
  trial.record.reason = why_not_given(*setup.implementation, *setup.problem, setup.grid);
  if (trial.record.reason.empty()) {
    trial.record.reason = ranks.first_text(ranks.why_not_here(setup.backend, setup.grid.ranks()));
  }
  std::optional<ErrorCode> failure;  // of the function that says what is supported
  if (trial.record.reason.empty()) {
    for_each_part(setup, [&](std::size_t, const LossProblem& loss_problem) {
      trial.record.padded_tokens += loss_problem.rows();
      trial.record.details = setup.implementation->details(loss_problem);
    });
    const std::string padding = describe(setup.problem->padding);
    if (!padding.empty()) trial.record.details["padding"] = padding;
    trial.record.branch_shares =
        setup.truth->objective.branch_shares(unpadded_batch(*setup.problem));
    const Refusal refusal = agreed_refusal(ranks, [&] { return why_skipped(setup); });
    trial.record.reason = refusal.reason;
    failure = refusal.failure;
  }
  if (!trial.record.reason.empty()) {
    trial.record.status = failure ? status_of(*failure) : TrialStatus::skipped;
    return trial;
  }

  const RanksRun<RankResult> run = ranks.run<RankResult>(
      setup.grid.ranks(), [shared](Communicator& world) { return run_rank(*shared, world); },
      deadline);
  trial.must_end = run.outcome.is_the_last();
  if (!run.outcome.all_ok()) {
    record_failure(run.outcome, trial.record);
    return trial;
  }
  if (!ranks.reports()) return trial;
  StageTimes stages;
  // Ranks of the stages before the last wait for its work.
  for (int r = setup.grid.first_of_last_stage(); r < setup.grid.ranks(); ++r) {
    stages.raise_to(run.results[static_cast<std::size_t>(r)].stages);
  }
  add_stage_times(stages);
  const StageScope scope(Stage::compare);
  merge_ranks(setup, run.results, trial.record);
  if (setup.keep_outputs) trial.outputs = gather_outputs(setup, run.results);
  return trial;
}

}  // namespace lossgrid
