// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/trial/trial.h"

#include <algorithm>

#include "harness/core/text.h"
#include "harness/loss/framework_scale.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/problem/batch/dynamic_partition.h"
#include "harness/runner/job/admission.h"
#include "harness/runner/rank/rank_archive.h"
#include "harness/runner/rank/rank_trial.h"
#include "harness/runner/trial/gathered_outputs.h"
#include "harness/runner/verdict/desync_report.h"
#include "harness/runner/verdict/failure_facts.h"
#include "harness/runner/verdict/rank_merge.h"
#include "harness/runner/verdict/unjudged_outputs.h"
#include "harness/verify/checks/expected.h"
#include "harness/verify/truth/unpadded_batch.h"

namespace lossgrid {
namespace {

/// Returns a reason for which the implementation never takes the trial; sets the memory that it
/// needs. Throws unsupported if the implementation refuses it, which a suite may have to state. A
/// rank of the last pipeline stage holds one microbatch at a time, the others none.
std::optional<SkipReason> ask(const TrialSetup& setup, RanksMemory& need) {
  std::optional<SkipReason> reason;
  for_each_part(setup, [&](int first, const LossProblem& loss_problem) {
    if (!reason) reason = setup.implementation->unsupported(loss_problem);
    if (reason) return;
    const std::int64_t bytes = trial_rank_bytes(loss_problem, *setup.implementation);
    for (int r = first; r < first + loss_problem.grid.tp * loss_problem.grid.cp; ++r) {
      std::int64_t& most = need.rank_bytes[static_cast<std::size_t>(r)];
      most = std::max(most, bytes);
    }
  });
  if (reason && !reason->is_always_right) throw Error(ErrorCode::unsupported, reason->text);
  return reason;
}

/// Returns the CP sizes of the microbatches, "4,1".
std::string cp_sizes_text(const TrialSetup& setup) {
  std::vector<std::string> sizes;
  for (const TrialMicrobatch& microbatch : setup.microbatches) {
    sizes.push_back(std::to_string(microbatch.grid.cp));
  }
  return join(sizes, ",");
}

/// Decides with all processes whether the trial runs, and describes one that may.
TrialFacts admit(const TrialSetup& setup, const Ranks& ranks, TrialRecord& record) {
  const Admission admission(ranks, setup.grid, setup.backend);
  TrialFacts facts;
  facts.skipped =
      admission.closed(not_applicable(*setup.implementation, *setup.problem, setup.grid));
  if (facts.skipped) return facts;
  for_each_part(setup, [&](int, const LossProblem& loss_problem) {
    record.padded_tokens += loss_problem.rows();
    record.details = setup.implementation->details(loss_problem);
  });
  const std::string padding = describe(setup.problem->padding);
  if (!padding.empty()) record.details["padding"] = padding;
  if (setup.grid.is_dynamic()) record.details["cp_sizes"] = cp_sizes_text(setup);
  record.branch_shares = setup.truth->objective.branch_shares(unpadded_batch(*setup.problem));
  const Refusal refusal = admission.refusal([&](RanksMemory& need) { return ask(setup, need); });
  facts.skipped = refusal.skipped;
  facts.failure = refusal.failure;
  return facts;
}

/// Records the ranks of a trial that was cut short.
TrialFacts failure_of(const RanksOutcome& outcome, TrialRecord& record) {
  const auto first = static_cast<std::size_t>(std::max(0, outcome.first_failed_rank));
  const RankOutcome& failed = outcome.ranks[first];
  const std::string_view phase = name(failed.trace.phase);
  TrialFacts facts;
  // All ranks refuse, and any of them may be the first.
  const std::string place =
      failed.code == ErrorCode::unsupported
          ? ""
          : fmt::format("rank {}{}{}: ", first, phase.empty() ? "" : " in ", phase);
  facts.failure = {failed.code, place + failed.message};
  if (failed.code == ErrorCode::unsupported) return facts;
  record.first_failed_rank = outcome.first_failed_rank;
  if (was_cut_short(judge(facts).status)) record.ranks = desync_report(outcome);
  return facts;
}

void add_stages(const Grid& grid, const std::vector<RankResult>& ranks) {
  StageTimes stages;
  // Ranks of the stages before the last wait for its work.
  for (int r = grid.first_of_last_stage(); r < grid.ranks(); ++r) {
    stages.raise_to(ranks[static_cast<std::size_t>(r)].stages);
  }
  add_stage_times(stages);
}

/// Runs the ranks of a trial and compares their outputs.
TrialFacts run_ranks(const std::shared_ptr<const TrialSetup>& shared,
                     std::chrono::milliseconds deadline, const Ranks& ranks, TrialOutcome& trial) {
  const TrialSetup& setup = *shared;
  const RanksRun<RankResult> run = ranks.run<RankResult>(
      setup.grid.ranks(), [shared](Communicator& world) { return run_rank(*shared, world); },
      deadline);
  trial.must_end = run.outcome.is_the_last();
  if (!run.outcome.all_ok()) return failure_of(run.outcome, trial.record);
  if (!ranks.reports()) return {};
  add_stages(setup.grid, run.results);
  const StageScope scope(Stage::compare);
  TrialFacts facts = merge_ranks(setup, run.results, trial.record);
  trial.record.unjudged = unjudged_outputs_of(setup);
  if (judge(facts).status == TrialStatus::failed) {
    trial.failure = failure_facts(setup, run.results, trial.record);
    trial.record.explanation =
        explain(*trial.failure, nullptr, declared_words(*setup.implementation));
  }
  if (setup.keep_outputs) trial.outputs = gather_outputs(setup, run.results);
  if (setup.expected) {
    for (const Check& check : check_outputs(setup, *setup.expected, *trial.outputs)) {
      facts.expected.push_back(to_record(check));
      trial.record.checks.push_back(facts.expected.back());
    }
  }
  return facts;
}

/// Returns the text of a case; a bundle's path and how it is cut.
std::string identity_of(const Problem& problem) {
  const auto* bundle = std::get_if<FromBundle>(&problem.source);
  if (bundle == nullptr) return std::get<FromCase>(problem.source).text;
  if (problem.spec.microbatches == 1) return bundle->path;
  return fmt::format("{} microbatches={}", bundle->path, problem.spec.microbatches);
}

/// Returns " --load FILE --impl mine" for an implementation that was loaded.
std::string implementation_flags(const std::string& implementation) {
  const ImplementationEntry* entry = find_implementation(implementation);
  const bool is_loaded = entry != nullptr && !entry->load_flags.empty();
  return fmt::format("{} --impl {}", is_loaded ? ' ' + entry->load_flags : "",
                     shell_word(implementation));
}

std::string reproduce_replay(const std::string& bundle, std::int64_t microbatches,
                             const std::string& implementation, const Grid& grid, Backend backend) {
  return fmt::format("lossgrid replay {}{} --grid {}{}{}", shell_word(bundle),
                     implementation_flags(implementation), format_grid(grid),
                     microbatches > 1 ? fmt::format(" --microbatches {}", microbatches) : "",
                     backend_flag(backend));
}

}  // namespace

std::string trial_id(const std::string& problem, const Grid& grid,
                     const std::string& implementation, Backend backend) {
  return fmt::format("{}|{}|{}|{}", problem, format_grid(grid), implementation, name(backend));
}

std::string reproduce_case(const std::string& case_text, const std::string& implementation,
                           const Grid& grid, Backend backend) {
  return fmt::format("lossgrid run{} --grid {} --case \"{}\"{}",
                     implementation_flags(implementation), format_grid(grid), case_text,
                     backend_flag(backend));
}

TrialRecord describe_trial(const Problem& problem, const std::string& implementation,
                           const Grid& grid, Backend backend) {
  TrialRecord record;
  record.id = trial_id(identity_of(problem), grid, implementation, backend);
  record.backend = name(backend);
  record.case_name = problem.spec.name;
  record.case_parameters = case_to_json(problem.spec);
  record.tp = grid.tp;
  record.cp = grid.cp;
  record.dp = grid.dp;
  record.pp = grid.pp;
  record.sp = grid.sp;
  record.cp_layout = name(grid.cp_layout);
  record.microbatches = static_cast<int>(problem.spec.microbatches);
  record.implementation = implementation;
  record.tokens = problem.tokens();
  for (const std::uint8_t valid : problem.row_valid()) record.valid_tokens += valid;
  const auto* bundle = std::get_if<FromBundle>(&problem.source);
  record.reproduce =
      bundle != nullptr
          ? reproduce_replay(bundle->path, problem.spec.microbatches, implementation, grid, backend)
          : reproduce_case(std::get<FromCase>(problem.source).text, implementation, grid, backend);
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

namespace {

void require_static_framework(const CaseSpec& spec, const Grid& grid) {
  if (!grid.is_dynamic() || !stated_framework(spec.framework)) return;
  throw_bad_input(
      "grid {} has a cp and dp for every microbatch, and the factors of a framework are made of "
      "those of a grid",
      format_grid(grid));
}

}  // namespace

void require_trial(const PreparedProblem& prepared, const std::string& implementation,
                   const Grid& grid) {
  const Problem& problem = *prepared.problem;
  require_static_framework(problem.spec, grid);
  const std::unique_ptr<LossImplementation> made = make_implementation(implementation);
  for (const int size : grid.cp_sizes()) {
    const Grid of_packs = grid.with_cp(size);
    require_fits(problem, of_packs);
    if (not_applicable(*made, problem, of_packs)) return;
    const auto padded = padded_for(prepared.problem, made->describe().padding);
    const PackedBatch batch = pack(*padded, of_packs);
    made->require_fits(make_loss_problem(*padded, batch, of_packs, *prepared.objective));
  }
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
  if (not_applicable(*setup.implementation, *setup.problem, grid)) return setup;
  if (no_device(backend)) return setup;
  setup.problem = padded_for(prepared.problem, setup.implementation->describe().padding);
  const ObjectiveNeeds needs = prepared.objective->needs();
  const std::vector<MicrobatchPacks> plans =
      plan_microbatches(*setup.problem, grid, needs.unit_of(prepared.problem->sequences()));
  if (needs.packs_are_groups) {
    std::vector<std::vector<MicrobatchPlan>> packs;
    for (const MicrobatchPacks& plan : plans) packs.push_back(plan.packs);
    setup.problem = grouped_by_pack(*setup.problem, packs);
  }
  const ImplementationTraits traits = setup.implementation->describe();
  setup.truth = truth_of(prepared, *setup.problem, serial_adds(setup),
                         {.logits = traits.rounds_logits,
                          .log_sum_exp = traits.rounds_log_sum_exp,
                          .temperature = traits.rounds_temperature,
                          .quotient = traits.rounds_quotient});
  for (const MicrobatchPacks& plan : plans) {
    TrialMicrobatch& microbatch = setup.microbatches.emplace_back();
    microbatch.grid = grid.with_cp(plan.cp);
    const bool is_whole = plans.size() == 1 && plan.packs.size() == 1;
    for (const MicrobatchPlan& pack : plan.packs) {
      if (is_whole) {
        microbatch.parts.push_back({setup.problem, setup.truth});
        continue;
      }
      auto part = std::make_shared<Problem>(
          take_part(*setup.problem, pack, static_cast<int>(plans.size()), microbatch.grid.dp));
      if (grid.is_dynamic()) part->microbatch.grid_cp = grid.cp;
      auto truth = std::make_shared<const Truth>(take_part(*setup.truth, *part));
      microbatch.parts.push_back({std::move(part), std::move(truth)});
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
  TrialFacts facts = admit(setup, ranks, trial.record);
  if (facts.may_run()) {
    shared->declared = declared_roundings(setup);
    facts = run_ranks(shared, deadline, ranks, trial);
  }
  facts.stated_skips = setup.stated_skips;
  set_verdict(trial.record, facts);
  return trial;
}

}  // namespace lossgrid
