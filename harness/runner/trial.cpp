// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/trial.h"

#include <algorithm>

#include "harness/comm/thread_communicator.h"
#include "harness/core/text.h"
#include "harness/runner/memory_plan.h"
#include "harness/runner/rank_merge.h"
#include "harness/runner/rank_trial.h"

namespace lossgrid {
namespace {

/// Why the trial cannot run here; empty when it can.
std::string why_skipped(const TrialSetup& setup) {
  const Problem& problem = *setup.problem;
  if (!problem.logits) return problem.why_no_logits;
  const PackedBatch batch = pack(problem, setup.grid.cp);
  const LossProblem loss_problem{batch, problem.spec.vocab, problem.spec.dtype, setup.grid,
                                 *setup.objective};
  const std::string unsupported = setup.implementation->why_unsupported(loss_problem);
  if (!unsupported.empty()) return unsupported;
  return why_too_big(trial_memory_bytes(loss_problem, *setup.implementation));
}

TrialStatus status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
      return TrialStatus::timeout;
    case ErrorCode::unsupported:
      return TrialStatus::skipped;
    default:
      return TrialStatus::error;
  }
}

void record_failure(const RanksOutcome& outcome, TrialRecord& record) {
  const auto first = static_cast<std::size_t>(std::max(0, outcome.first_failed_rank));
  const RankOutcome& failed = outcome.ranks[first];
  record.first_failed_rank = outcome.first_failed_rank;
  record.status = status_of(failed.code);
  record.reason = fmt::format("rank {}: {}", first, failed.message);
}

BundleResults gather_outputs(const TrialSetup& setup, const std::vector<RankResult>& ranks) {
  const Problem& problem = *setup.problem;
  const std::int64_t vocab = problem.spec.vocab;
  BundleResults out;
  out.loss = ranks[0].result.loss;
  for (const auto& [name, value] : ranks[0].result.metrics) {
    if (value) out.metrics[name] = *value;
  }
  out.logprobs.assign(static_cast<std::size_t>(problem.tokens()), 0.0);
  out.grad_logits.assign(static_cast<std::size_t>(problem.tokens() * vocab), 0.0);
  const PackedBatch batch = pack(problem, setup.grid.cp);
  for (int r = 0; r < setup.grid.ranks(); ++r) {
    const std::vector<std::int64_t> rows =
        cp_rows(batch.cu_seqlens_padded, setup.grid.cp, setup.grid.cp_rank(r));
    const std::vector<RowPlace> places = place_rows(problem, batch.cu_seqlens_padded, rows);
    const VocabShard shard = vocab_shard(vocab, setup.grid.tp, setup.grid.tp_rank(r));
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (places[k].row < 0) continue;
      // A log-probability stands at the token it is about, one behind the row that predicts it.
      if (setup.truth->rows[places[k].row].target >= 0) {
        out.logprobs[places[k].row + 1] = ranks[r].logprobs[k];
      }
      const double* from = ranks[r].grad_logits.data() + static_cast<std::int64_t>(k) * shard.width;
      std::copy(from, from + shard.valid(),
                out.grad_logits.begin() + places[k].row * vocab + shard.begin);
    }
  }
  return out;
}

}  // namespace

TrialRecord describe_trial(const Problem& problem, const std::string& implementation,
                           const Grid& grid) {
  TrialRecord record;
  const bool from_case = problem.source.starts_with("--case");
  const std::string grid_text = format_grid(grid);
  record.id = fmt::format("{}|{}|{}|cpu", from_case ? format_case(problem.spec) : problem.source,
                          grid_text, implementation);
  record.case_name = problem.spec.name;
  record.case_parameters = case_to_json(problem.spec);
  record.tp = grid.tp;
  record.cp = grid.cp;
  record.implementation = implementation;
  record.tokens = problem.tokens();
  for (const std::uint8_t valid : problem.row_valid()) record.valid_tokens += valid;
  record.reproduce = from_case ? fmt::format("lossgrid run --impl {} --grid {} {}", implementation,
                                             grid_text, problem.source)
                               : fmt::format("lossgrid replay {} --impl {} --tp {} --cp {}",
                                             problem.source, implementation, grid.tp, grid.cp);
  return record;
}

TrialOutcome run_trial(const TrialSetup& setup, std::chrono::milliseconds deadline) {
  TrialOutcome trial;
  trial.record = describe_trial(*setup.problem, setup.implementation_text, setup.grid);
  require_fits(*setup.problem, setup.grid);
  trial.record.padded_tokens = pack(*setup.problem, setup.grid.cp).padded_tokens();
  trial.record.reason = why_skipped(setup);
  if (!trial.record.reason.empty()) {
    trial.record.status = TrialStatus::skipped;
    return trial;
  }

  struct Shared {
    TrialSetup setup;
    std::vector<RankResult> results;
  };
  auto shared = std::make_shared<Shared>();
  shared->setup = setup;
  shared->results.resize(static_cast<std::size_t>(setup.grid.ranks()));
  const RanksOutcome outcome = run_thread_ranks(
      setup.grid.ranks(),
      [shared](Communicator& world) {
        shared->results[static_cast<std::size_t>(world.rank())] = run_rank(shared->setup, world);
      },
      deadline);
  trial.rank_hung = outcome.any_hung();
  if (!outcome.all_ok()) {
    record_failure(outcome, trial.record);
    return trial;
  }
  merge_ranks(setup, shared->results, trial.record);
  if (setup.keep_outputs) trial.outputs = gather_outputs(setup, shared->results);
  return trial;
}

}  // namespace lossgrid
