// SPDX-License-Identifier: Apache-2.0
// First what every rank does with the implementations that can be timed, then which those are and
// whether they fit side by side, and last the way from samples to a record.
#include "harness/runner/timing.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "harness/comm/thread_communicator.h"
#include "harness/device/rank_threads.h"
#include "harness/loss/registry.h"
#include "harness/measure/interleave.h"
#include "harness/measure/statistics.h"
#include "harness/runner/global_batch.h"
#include "harness/runner/memory_plan.h"
#include "harness/runner/rank_tensors.h"
#include "harness/runner/trial.h"
#include "harness/runner/weight_gradient.h"

namespace lossgrid {
namespace {

/// One implementation on one rank, with all that it needs to run any number of times.
class TimedPlan {
 public:
  TimedPlan(const TrialSetup& setup, const Denominators& denominators, const PackRank& rank)
      : part_(setup.parts[0][0]),
        device_(make_cpu_device()),
        batch_(pack(*part_.problem, setup.grid)),
        problem_(make_loss_problem(*part_.problem, batch_, setup.grid, *setup.objective)),
        own_rows_(place_rows(*part_.problem, batch_.cu_seqlens_padded,
                             cp_rows(batch_.cu_seqlens_padded, setup.grid.cp, rank.cp_rank))) {
    batch_.denominators = denominators;
    const RankPack pack{*part_.problem,     *part_.truth,
                        problem_,           rank,
                        *device_,           own_rows_,
                        serial_adds(setup), setup.implementation->grad_logits_dtype(problem_)};
    tensors_ = problem_.from_hidden() ? make_linear_tensors(pack) : make_logits_tensors(pack);
    tensors_->allocate_gradients();
    plan_ = setup.implementation->plan(problem_, RankContext{*device_, rank.tp, rank.cp});
    const bool whole_pack = setup.implementation->describe().logprobs == LogprobScope::pack;
    const auto rows =
        static_cast<std::size_t>(whole_pack ? problem_.rows() : problem_.local_rows());
    tokens_ = DeviceArray<float>(
        *device_, rows * static_cast<std::size_t>(problem_.token_columns()), "token_outputs");
    outputs_.tokens =
        columns_in({tokens_.data(), tokens_.size()}, problem_, static_cast<std::int64_t>(rows));
  }
  TimedPlan(const TimedPlan&) = delete;
  TimedPlan& operator=(const TimedPlan&) = delete;

  /// Forward and backward once. Collective over the rank's groups.
  std::chrono::nanoseconds run() {
    const LossInputs inputs = tensors_->inputs();
    LossGradients gradients = tensors_->gradients();
    const auto start = std::chrono::steady_clock::now();
    plan_->forward(inputs, outputs_);
    plan_->backward(inputs, gradients);
    return std::chrono::steady_clock::now() - start;
  }

 private:
  TrialPart part_;
  std::unique_ptr<Device> device_;
  PackedBatch batch_;
  LossProblem problem_;
  std::vector<RowPlace> own_rows_;
  std::unique_ptr<RankTensors> tensors_;
  std::unique_ptr<LossPlan> plan_;
  DeviceArray<float> tokens_;
  LossOutputs outputs_;
};

/// What ranks share; a rank that hangs keeps it.
struct SharedTiming {
  std::vector<TrialSetup> setups;  // of the implementations that are timed, on one problem and grid
  std::int64_t rounds = 0;
  std::vector<std::int64_t> samples_ns;  // [implementations, rounds], written by rank 0
};

/// Samples [implementations, rounds] of the slowest rank, the same on all ranks.
std::vector<std::int64_t> time_rank(const SharedTiming& timing, Communicator& world) {
  share_cores(world.size());
  const TrialSetup& first = timing.setups.front();
  const ProcessGrid groups = make_process_grid(world, first.grid);
  const Denominators denominators = count_denominators(first.parts[0], *first.problem, *groups.dp);
  // Only read: each implementation adds to a copy of its own.
  std::vector<float> weight_gradient = first_weight_gradient(first, groups.tp_rank());
  RankCounts no_counts;
  const PackRank rank{world.rank(), groups.tp_rank(), groups.cp_rank(), *groups.tp,
                      *groups.cp,   no_counts,        weight_gradient};

  std::vector<std::unique_ptr<TimedPlan>> plans;
  for (const TrialSetup& setup : timing.setups) {
    plans.push_back(std::make_unique<TimedPlan>(setup, denominators, rank));
    plans.back()->run();
  }
  const auto rounds = static_cast<std::size_t>(timing.rounds);
  std::vector<std::int64_t> samples(plans.size() * rounds);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const std::size_t k : round_order(plans.size(), static_cast<std::int64_t>(round))) {
      world.barrier();
      // At least a tick of the clock: samples are divided by.
      samples[k * rounds + round] = std::max<std::int64_t>(1, plans[k]->run().count());
    }
  }
  world.all_reduce(std::span<std::int64_t>(samples), ReduceOp::max);
  return samples;
}

/// Why one implementation cannot be timed; empty when it can.
std::string why_not_timed(const LossImplementation& implementation, const LossProblem& problem) {
  const std::string reason = why_other_inputs(implementation, problem.from_hidden());
  return reason.empty() ? implementation.why_unsupported(problem) : reason;
}

/// Implementations that can be timed, and what all of them need side by side.
struct Candidates {
  std::vector<TrialSetup> setups;
  std::vector<std::size_t> entries;  // of the record, by setup
  std::int64_t bytes = 0;
};

/// Fills the entries of `record` with what is known before anything runs.
Candidates find_candidates(const PreparedProblem& prepared,
                           const std::vector<std::string>& implementations, const Grid& grid,
                           TimingRecord& record) {
  const PackedBatch batch = pack(*prepared.problem, grid);
  const LossProblem problem =
      make_loss_problem(*prepared.problem, batch, grid, *prepared.objective);
  Candidates candidates;
  for (const std::string& text : implementations) {
    TimingEntry& entry = record.entries.emplace_back();
    entry.implementation = text;
    const auto implementation = make_implementation(text);
    entry.why_skipped = why_not_timed(*implementation, problem);
    if (!entry.why_skipped.empty()) continue;
    const Cost cost = implementation->cost(problem);
    entry.own_flops = grid.ranks() * (cost.forward.flops + cost.backward.flops);
    candidates.bytes += trial_memory_bytes(problem, *implementation);
    candidates.setups.push_back(make_trial(prepared, text, grid));
    candidates.entries.push_back(record.entries.size() - 1);
  }
  return candidates;
}

std::string why_baseline_missing(const TimingRecord& record) {
  const auto baseline =
      std::find_if(record.entries.begin(), record.entries.end(),
                   [&](const TimingEntry& e) { return e.implementation == record.baseline; });
  if (baseline == record.entries.end()) {
    return fmt::format("the baseline {} is not among the implementations", record.baseline);
  }
  if (baseline->why_skipped.empty()) return "";
  return fmt::format("the baseline {}: {}", record.baseline, baseline->why_skipped);
}

/// The record without samples.
TimingRecord describe_timing(const CaseSpec& spec, const Grid& grid, const TimingRequest& request) {
  TimingRecord record;
  record.case_name = spec.name;
  record.case_text = format_case(spec);
  record.grid = format_grid(grid);
  record.baseline = request.baseline;
  record.rounds = request.rounds;
  return record;
}

void stop(TimingRecord& record, TimingStatus status, const std::string& reason) {
  record.status = status;
  record.reason = reason;
  record.entries.clear();
}

void record_failure(const RanksOutcome& outcome, TimingRecord& record) {
  const auto first = static_cast<std::size_t>(std::max(0, outcome.first_failed_rank));
  const RankOutcome& failed = outcome.ranks[first];
  const bool late = failed.code == ErrorCode::timeout;
  stop(record, late ? TimingStatus::timeout : TimingStatus::error,
       fmt::format("rank {}: {}", first, failed.message));
}

/// Samples as numbers of the statistics.
std::vector<double> as_numbers(std::span<const std::int64_t> samples) {
  return {samples.begin(), samples.end()};
}

void summarise(const SharedTiming& timing, const std::vector<std::size_t>& entries,
               TimingRecord& record) {
  const auto rounds = static_cast<std::size_t>(timing.rounds);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const auto begin = timing.samples_ns.begin() + static_cast<std::ptrdiff_t>(k * rounds);
    record.entries[entries[k]].samples_ns.assign(begin,
                                                 begin + static_cast<std::ptrdiff_t>(rounds));
  }
  const auto of_baseline = std::find_if(
      record.entries.begin(), record.entries.end(),
      [&](const TimingEntry& entry) { return entry.implementation == record.baseline; });
  const std::vector<double> baseline = as_numbers(of_baseline->samples_ns);
  for (const std::size_t at : entries) {
    TimingEntry& entry = record.entries[at];
    const std::vector<double> samples = as_numbers(entry.samples_ns);
    entry.median_ns = std::llround(median(samples));
    entry.p20_ns = std::llround(quantile(samples, 0.2));
    entry.p80_ns = std::llround(quantile(samples, 0.8));
    entry.ratio_to_baseline = median_of_pair_ratios(samples, baseline);
    entry.useful_flops_per_second = record.useful_flops / (median(samples) * 1e-9);
  }
}

}  // namespace

TimingOutcome time_implementations(const PreparedProblem& prepared,
                                   const std::vector<std::string>& implementations,
                                   const Grid& grid, const TimingRequest& request,
                                   std::chrono::milliseconds deadline) {
  const Problem& problem = *prepared.problem;
  TimingOutcome timed;
  TimingRecord& record = timed.record;
  record = describe_timing(problem.spec, grid, request);
  // Three products of the same size: logits, and the gradients of hidden states and of the weight.
  record.useful_flops = 6.0 * static_cast<double>(problem.tokens()) *
                        static_cast<double>(problem.spec.hidden) *
                        static_cast<double>(problem.spec.vocab);
  if (grid.dp > 1 || problem.spec.microbatches > 1) {
    stop(record, TimingStatus::skipped, "only one dp rank with one microbatch is timed");
    return timed;
  }
  require_fits(problem, grid);
  Candidates candidates = find_candidates(prepared, implementations, grid, record);
  std::string reason = why_baseline_missing(record);
  if (reason.empty()) reason = why_too_big(candidates.bytes);
  if (!reason.empty()) {
    stop(record, TimingStatus::skipped, reason);
    return timed;
  }

  auto shared = std::make_shared<SharedTiming>();
  shared->setups = std::move(candidates.setups);
  shared->rounds = request.rounds;
  const RanksOutcome outcome = run_thread_ranks(
      grid.ranks(),
      [shared](Communicator& world) {
        std::vector<std::int64_t> samples = time_rank(*shared, world);
        if (world.rank() == 0) shared->samples_ns = std::move(samples);
      },
      deadline);
  timed.rank_hung = outcome.any_hung();
  if (outcome.all_ok()) {
    summarise(*shared, candidates.entries, record);
  } else {
    record_failure(outcome, record);
  }
  return timed;
}

bool time_suites(const std::vector<Suite>& suites, std::chrono::milliseconds trial_deadline,
                 ProblemCache& problems, const std::function<void(const TimingRecord&)>& sink) {
  for (const Suite& suite : suites) {
    if (!suite.timing) continue;
    const auto samples = static_cast<std::int64_t>(suite.implementations.size()) *
                         (suite.timing->rounds + 1);  // and the warm-up
    for (const CaseSpec& spec : suite.cases) {
      const PreparedProblem& prepared = problems.get(spec);
      for (const Grid& grid : suite.grids) {
        TimingOutcome timed;
        if (prepared.why_too_big.empty()) {
          timed = time_implementations(prepared, suite.implementations, grid, *suite.timing,
                                       samples * trial_deadline);
          timed.record.case_name = spec.name;
        } else {
          timed.record = describe_timing(spec, grid, *suite.timing);
          stop(timed.record, TimingStatus::skipped, prepared.why_too_big);
        }
        sink(timed.record);
        if (timed.rank_hung) return true;
      }
    }
  }
  return false;
}

ExitCode exit_code_of(const std::vector<TimingRecord>& timings) {
  ExitCode code = ExitCode::ok;
  for (const TimingRecord& timing : timings) {
    if (timing.status == TimingStatus::error) code = worst(code, ExitCode::rank_crashed);
    if (timing.status == TimingStatus::timeout) code = worst(code, ExitCode::hang);
  }
  return code;
}

}  // namespace lossgrid
