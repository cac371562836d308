// SPDX-License-Identifier: Apache-2.0
// Runs one timing: drops implementations that cannot run or do not fit, samples on all ranks,
// summarises into a TimingRecord.
#include "harness/runner/timing/timing.h"

#include <algorithm>
#include <memory>

#include "harness/core/text.h"
#include "harness/device/device_timer.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/loss/registry.h"
#include "harness/measure/cache.h"
#include "harness/measure/self_test.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/runner/job/admission.h"
#include "harness/runner/timing/recorded_times.h"
#include "harness/runner/timing/timing_archive.h"
#include "harness/runner/timing/timing_summary.h"
#include "harness/runner/trial/trial.h"
#include "harness/runner/verdict/trial_verdict.h"

namespace lossgrid {
namespace {

/// Returns the baseline of speed-ups: as asked for, or per_sequence, or the first that is built in,
/// or the first. A loaded implementation may change from run to run, so it comes last.
std::string choose_baseline(const std::string& asked,
                            const std::vector<std::string>& implementations) {
  const auto among = [&](const std::string& name) {
    return std::find(implementations.begin(), implementations.end(), name) != implementations.end();
  };
  if (!asked.empty()) return asked;
  if (among("per_sequence")) return "per_sequence";
  const auto built_in =
      std::find_if(implementations.begin(), implementations.end(), [](const std::string& name) {
        const ImplementationEntry* entry = find_implementation(name);
        return entry != nullptr && entry->file.empty();
      });
  return built_in == implementations.end() ? implementations.front() : *built_in;
}

/// Returns the record without samples.
TimingRecord describe_timing(const CaseSpec& spec, const Grid& grid,
                             const std::vector<std::string>& implementations,
                             const TimingRequest& request, CacheMode cache, Backend backend,
                             const Ranks& ranks, bool recorded) {
  TimingRecord record;
  record.backend = name(backend);
  record.transport = ranks.transport();
  record.timer = traits_of(backend).timer;
  record.case_name = spec.name;
  record.case_text = format_case(spec);
  record.grid = format_grid(grid);
  record.cache = name(cache);
  record.baseline = choose_baseline(request.baseline, implementations);
  record.last_level_cache_bytes = last_level_cache_bytes(backend);
  record.order_seed = request.order_seed;
  record.min_samples = request.min_samples;
  record.max_seconds = request.max_seconds;
  record.target_stderr_ratio = request.target_stderr;
  const CoreShare share = core_share(grid.ranks());
  record.cores = share.cores;
  record.threads_per_rank = share.threads_per_rank;
  std::string shared;
  if (!traits_of(backend).has_real_times) {
    shared = "kernels of a GPU run on the processor";
  } else if (share.oversubscribed) {
    shared = fmt::format("{} ranks with {} thread{} each share {} core{}", grid.ranks(),
                         share.threads_per_rank, share.threads_per_rank == 1 ? "" : "s",
                         share.cores, share.cores == 1 ? "" : "s");
  } else if (recorded) {
    shared = "a trace or memory snapshots were written meanwhile";
  }
  // Another machine of the job may be fuller.
  record.not_representative_reason = ranks.agree_on_first_error(shared);
  return record;
}

void stop(TimingRecord& record, const TrialFacts& facts) {
  const TrialVerdict verdict = judge(facts);
  record.status = timing_status(verdict.status);
  record.reason = verdict.reason;
}

void skip(TimingRecord& record, SkipReason reason) {
  stop(record, {.skipped = std::move(reason)});
}

/// Returns a reason for which no implementation is timed on such a grid.
std::optional<SkipReason> never_timed(const CaseSpec& spec, const Grid& grid) {
  if (grid.pp > 1) return SkipReason{"only one pipeline stage is timed"};
  if (grid.is_dynamic()) {
    return SkipReason{"no dynamic grid is timed: name the CP size of a microbatch"};
  }
  if (grid.dp > 1 || spec.microbatches > 1) {
    return SkipReason{"only one dp rank with one microbatch is timed"};
  }
  return std::nullopt;
}

class Timing {
 public:
  Timing(const PreparedProblem& prepared, const Grid& grid, const TimingRequest& request,
         CacheMode cache, Backend backend, const Ranks& ranks,
         const std::optional<TrialRecording>& recording, TimingRecord& record)
      : prepared_(prepared),
        grid_(grid),
        backend_(backend),
        ranks_(ranks),
        record_(record),
        plan_(std::make_shared<TimingPlan>()) {
    StopRule& stop_rule = plan_->sampler.stop;
    stop_rule.min_samples = request.min_samples;
    stop_rule.target_stderr_ratio = request.target_stderr;
    stop_rule.max_time_ns = static_cast<std::int64_t>(request.max_seconds * 1e9);
    plan_->sampler.order_seed = request.order_seed;
    plan_->cache = cache;
    plan_->recording = recording;
  }

  /// Makes the trials of the implementations that can be timed, on one batch that is padded as all
  /// of them need; sets the memory that they need. Returns a reason when there is none.
  std::optional<SkipReason> choose(const std::vector<std::string>& implementations,
                                   RanksMemory& need) {
    std::vector<std::string> timed;
    std::vector<std::string> that_pad;
    for (const std::string& text : implementations) {
      const auto implementation = make_implementation(text);
      const std::optional<SkipReason> reason = not_timed(*implementation);
      if (text == record_.baseline) record_.no_speedup_reason = text_of(reason);
      if (reason) {
        record_.skipped.push_back({text, reason->text});
        continue;
      }
      const Padding padding = implementation->describe().padding;
      if (!padding.is_any()) that_pad.push_back(text);
      prepared_.problem = padded_for(prepared_.problem, padding);
      timed.push_back(text);
    }
    if (timed.empty()) return SkipReason{"no implementation takes it"};
    if (!that_pad.empty()) {
      record_.padding =
          fmt::format("{}, for {}", describe(prepared_.problem->padding), join(that_pad, ", "));
    }
    batch_ = pack(*prepared_.problem, grid_);
    problem_.emplace(loss_problem(*prepared_.problem, batch_));
    for (const std::string& text : timed) add_trial(text);
    if (std::find(implementations.begin(), implementations.end(), record_.baseline) ==
        implementations.end()) {
      record_.no_speedup_reason = record_.baseline + " is not among the implementations";
    }
    need.rank_bytes.assign(need.rank_bytes.size(), timing_memory_bytes(*problem_, *plan_));
    if (traits_of(backend_).is_gpu) need.rank_host_bytes = timing_host_bytes(*problem_);
    return std::nullopt;
  }

  /// Runs the ranks. Returns true if one of them hangs or has lost its GPU.
  bool run(std::chrono::milliseconds iteration_deadline, const std::optional<Fault>& fault) {
    plan_->fault = fault;
    // Warm-up, one round beyond the budget, and the checks of the last: two iterations a round.
    constexpr int kIterations = 6;
    const auto budget = std::chrono::milliseconds(plan_->sampler.stop.max_time_ns / 1'000'000);
    const auto iterations = kIterations * static_cast<int>(plan_->setups.size());
    const RanksRun<RankTiming> run = ranks_.run<RankTiming>(
        grid_.ranks(), [plan = plan_](Communicator& world) { return time_rank(*plan, world); },
        budget + iterations * iteration_deadline);
    if (!run.outcome.all_ok()) {
      record_failure(run.outcome);
    } else if (ranks_.reports()) {
      StageTimes stages;
      for (const RankTiming& rank : run.results) stages.raise_to(rank.stages);
      add_stage_times(stages);
      const StageScope scope(Stage::compare);
      summarise_timing(*plan_, *problem_, run.results, record_);
    }
    return run.outcome.is_the_last();
  }

 private:
  LossProblem loss_problem(const Problem& problem, const PackedBatch& batch) const {
    return make_loss_problem(problem, batch, grid_, *prepared_.objective, backend_);
  }

  /// Returns a reason when it cannot be timed beside those that were chosen before it.
  std::optional<SkipReason> not_timed(const LossImplementation& implementation) const {
    if (auto reason = not_applicable(implementation, *prepared_.problem, grid_)) return reason;
    if (implementation.describe().plays_back) {
      return SkipReason{"plays back what another program computed: there is nothing to time"};
    }
    const auto padded = padded_for(prepared_.problem, implementation.describe().padding);
    const PackedBatch batch = pack(*padded, grid_);
    return implementation.unsupported(loss_problem(*padded, batch));
  }

  void add_trial(const std::string& text) {
    plan_->setups.push_back(make_trial(prepared_, text, grid_, backend_));
    TrialSetup& setup = plan_->setups.back();
    setup.over_nccl = ranks_.has_nccl();
    setup.declared = declared_roundings(setup);
    const std::int64_t chunks =
        std::max<std::int64_t>(1, setup.implementation->cost(*problem_).chunks);
    plan_->product_rows =
        std::max(plan_->product_rows, (problem_->local_rows() + chunks - 1) / chunks);
  }

  void record_failure(const RanksOutcome& outcome) {
    const auto first = static_cast<std::size_t>(std::max(0, outcome.first_failed_rank));
    const RankOutcome& failed = outcome.ranks[first];
    const std::string text = fmt::format("rank {}: {}", first, failed.message);
    stop(record_, {.failure = RankFailure{failed.code, text}});
  }

  PreparedProblem prepared_;  // padded for the implementations that are timed
  Grid grid_;
  Backend backend_;
  const Ranks& ranks_;
  TimingRecord& record_;
  PackedBatch batch_;
  std::optional<LossProblem> problem_;
  std::shared_ptr<TimingPlan> plan_;  // a rank that hangs keeps it
};

}  // namespace

TimingOutcome time_implementations(const PreparedProblem& prepared,
                                   const std::vector<std::string>& implementations,
                                   const Grid& grid, const TimingRequest& request, CacheMode cache,
                                   std::chrono::milliseconds iteration_deadline, const Ranks& ranks,
                                   const std::optional<TrialRecording>& recording, Backend backend,
                                   const std::optional<Fault>& fault) {
  const Problem& problem = *prepared.problem;
  TimingOutcome timed;
  TimingRecord& record = timed.record;
  record = describe_timing(problem.spec, grid, implementations, request, cache, backend, ranks,
                           recording.has_value());
  record.tokens = problem.tokens();
  // Three products of the same size: logits, and the gradients of hidden states and of the weight.
  record.useful_flops = 6.0 * static_cast<double>(problem.tokens()) *
                        static_cast<double>(problem.spec.hidden) *
                        static_cast<double>(problem.spec.vocab);
  const std::optional<SkipReason> untimed = never_timed(problem.spec, grid);
  if (!untimed) require_fits(problem, grid);
  const Admission admission(ranks, grid, backend);
  if (const auto reason = admission.closed(untimed)) {
    skip(record, *reason);
    return timed;
  }
  Timing timing(prepared, grid, request, cache, backend, ranks, recording, record);
  const Refusal refusal =
      admission.refusal([&](RanksMemory& need) { return timing.choose(implementations, need); });
  const TrialFacts facts{.skipped = refusal.skipped, .failure = refusal.failure};
  if (!facts.may_run()) {
    stop(record, facts);
    return timed;
  }
  timed.must_end = timing.run(iteration_deadline, fault);
  return timed;
}

namespace {

/// Times one case, the `number`-th timing of the run, or takes it over.
TimingOutcome time_case(const Suite& suite, const CaseSpec& spec, const Grid& grid, CacheMode cache,
                        std::int64_t number, const RunOptions& options, ProblemCache& problems) {
  TimingOutcome timed;
  const std::vector<std::string>& implementations = suite.timing->implementations;
  const std::string id = timing_id(format_case(spec), format_grid(grid), std::string(name(cache)),
                                   std::string(name(suite.backend)));
  if (options.finished.contains(id)) {
    timed.record = options.finished.timing(id);
    return timed;
  }
  options.begins(id, "");
  const PreparedProblem& prepared = problems.get(spec);
  const std::optional<SkipReason> shortage =
      options.ranks.agree_on_first_error(prepared.memory_shortage);
  if (!shortage) {
    const auto recording = record_trial(options.recording, "timing", number,
                                        fmt::format("{}_{}", format_grid(grid), name(cache)), id,
                                        join(implementations, ", "));
    timed = time_implementations(prepared, implementations, grid, *suite.timing, cache,
                                 options.deadline, options.ranks, recording, suite.backend,
                                 fault_of(options, number));
    timed.record.case_name = spec.name;
    if (options.machine) {
      add_predicted_times(prepared, grid, suite.backend, *options.machine, timed.record);
    }
  } else {
    timed.record = describe_timing(spec, grid, implementations, *suite.timing, cache, suite.backend,
                                   options.ranks, false);
    skip(timed.record, *shortage);
  }
  return timed;
}

}  // namespace

bool time_suites(const std::vector<Suite>& suites, const RunOptions& options,
                 ProblemCache& problems, const std::function<void(const TimingRecord&)>& sink) {
  std::int64_t number = 0;
  for (const Suite& suite : suites) {
    if (!suite.timing) continue;
    for (const CaseSpec& spec : suite.cases) {
      for (const Grid& grid : suite.grids) {
        for (const CacheMode cache : suite.timing->caches) {
          const TimingOutcome timed =
              time_case(suite, spec, grid, cache, ++number, options, problems);
          sink(timed.record);
          if (timed.must_end) return true;
        }
      }
    }
  }
  return false;
}

std::vector<MeterRecord> test_meter() {
  std::vector<MeterRecord> records;
  for (const SelfTestCheck& check : run_self_test()) {
    records.push_back(
        {check.name, check.passed, check.expected, check.measured, check.unit, check.detail});
  }
  return records;
}

ExitCode exit_code_of(const std::vector<TimingRecord>& timings) {
  ExitCode code = ExitCode::ok;
  bool ran = false;
  for (const TimingRecord& timing : timings) {
    if (timing.status == TimingStatus::skipped) continue;
    ran = true;
    code = worst(code, exit_code_of(timing.status));
  }
  return ran ? code : ExitCode::nothing_ran;
}

ExitCode exit_code_of(const std::vector<MeterRecord>& meter) {
  const bool passed = std::all_of(meter.begin(), meter.end(),
                                  [](const MeterRecord& check) { return check.passed; });
  return passed ? ExitCode::ok : ExitCode::rank_crashed;
}

}  // namespace lossgrid
