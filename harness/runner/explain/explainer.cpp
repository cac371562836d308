// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/explain/explainer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/core/clock.h"
#include "harness/core/stage_clock.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/runner/explain/other_truths.h"
#include "harness/runner/explain/second_size.h"
#include "harness/runner/verdict/failure_facts.h"

namespace lossgrid {
namespace {

constexpr std::chrono::seconds kMostTime{2};        // of an implementation
constexpr std::chrono::seconds kMostTimeOfAll{20};  // of a run
constexpr int kMostRanksHere = 16;
constexpr std::int64_t kMostElements = std::int64_t{1} << 16;  // tokens times vocabulary

/// Trials with the same kind of failure have the same explanation of their factors.
std::string kind_of(const CaseTrial& failed, const FailureFacts& facts) {
  std::string kind = failed.implementation + '|' + failed.spec.objective.kind;
  for (const auto& [option, value] : failed.spec.objective.options) kind += option + '=' + value;
  for (const std::int64_t size :
       {std::int64_t{failed.grid.tp}, std::int64_t{failed.grid.cp}, std::int64_t{failed.grid.dp},
        failed.spec.microbatches, failed.spec.hidden}) {
    kind += size > 1 ? 'n' : '1';
  }
  kind += facts.loss ? "|loss" : "|";
  for (const GradientFacts& gradient : facts.gradients) {
    if (gradient.failed) kind += '|' + gradient.name;
  }
  return kind;
}

std::int64_t count_tokens(const CaseSpec& spec) {
  const std::vector<std::int64_t> lengths = case_lengths(spec);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Keeps the times of stages as they were: explanations are no part of them.
class KeptStageTimes {
 public:
  KeptStageTimes() : before_(take_stage_times()) {}
  ~KeptStageTimes() {
    take_stage_times();
    add_stage_times(before_);
  }
  KeptStageTimes(const KeptStageTimes&) = delete;
  KeptStageTimes& operator=(const KeptStageTimes&) = delete;

 private:
  StageTimes before_;
};

}  // namespace

struct Explainer::Sized {
  PreparedProblem prepared;
  TrialSetup setup;
  TrialOutcome outcome;

  bool failed() const { return outcome.failure.has_value(); }
  bool compared() const { return !outcome.record.checks.empty(); }
  bool has_nan() const { return failed() && lossgrid::has_nan(*outcome.failure); }
};

std::optional<Explainer::Sized> Explainer::run(const CaseTrial& failed, const CaseSpec& spec,
                                               const Grid& grid, TrialOutcome& trial) const {
  if (ranks_.agree_on_first_error(memory_shortage(case_memory_bytes(spec)))) return std::nullopt;
  try {
    Sized sized;
    sized.prepared = prepare(make_problem(spec));
    sized.setup = make_trial(sized.prepared, failed.implementation, grid, failed.backend);
    sized.setup.keep_outputs = true;
    sized.outcome = run_trial(sized.setup, deadline_, ranks_);
    trial.must_end = trial.must_end || sized.outcome.must_end;
    return sized;
  } catch (const Error&) {  // a case that cannot be: the same on all processes
    return std::nullopt;
  }
}

std::optional<Explainer::Sized> Explainer::run_second(const CaseTrial& failed, int number,
                                                      TrialOutcome& trial) const {
  const int most = ranks_.limit() > 0 ? std::min(ranks_.limit(), kMostRanksHere) : kMostRanksHere;
  std::vector<Grid> grids{second_grid(failed.grid, most)};
  if (!(grids[0] == failed.grid)) grids.push_back(failed.grid);
  std::optional<Sized> last;
  for (const Grid& grid : grids) {
    std::optional<Sized> second;
    try {
      second = run(failed, with_other_sizes(failed.spec, grid, number), grid, trial);
    } catch (const Error&) {
      continue;
    }
    if (trial.must_end) return std::nullopt;
    if (!second || !ranks_.agree_on_any(second->compared())) continue;
    last = std::move(second);
    if (ranks_.agree_on_any(last->failed())) break;
  }
  return last;
}

void Explainer::explain(const CaseTrial& failed, TrialOutcome& trial) {
  if (trial.must_end) return;
  std::chrono::nanoseconds& spent = spent_[failed.implementation];
  const std::string kind = trial.failure ? kind_of(failed, *trial.failure) : "";
  const bool runs = trial.failure && spent < kMostTime && spent_by_all_ < kMostTimeOfAll;
  if (!ranks_.agree_on_any(runs)) {
    const auto known = seconds_.find(kind);
    if (!trial.failure || known == seconds_.end() || !known->second) return;
    const auto implementation = make_implementation(failed.implementation);
    trial.record.explanation =
        lossgrid::explain(*trial.failure, &*known->second, declared_words(*implementation));
    return;
  }
  const KeptStageTimes kept;
  const std::int64_t begin = steady_clock_ns();
  std::optional<Sized> first;
  if (failed.spec.vocab * count_tokens(failed.spec) <= kMostElements) {
    CaseSpec same = failed.spec;
    same.poison = Poison::none;
    first = run(failed, same, failed.grid, trial);
  } else {
    first = run_second(failed, 1, trial);
  }
  std::optional<Sized> second;
  if (!trial.must_end) second = run_second(failed, 0, trial);
  if (trial.failure && !trial.must_end) {
    const DeclaredWords words = declared_words(*make_implementation(failed.implementation));
    if (first && first->compared() && second) {
      const bool is_trained = untrained_places(second->setup).empty();
      trial.failure->nan_trials = NanTrials{first->has_nan(), second->has_nan() || !is_trained};
    }
    auto& facts = seconds_[kind];
    facts = second ? second->outcome.failure : std::nullopt;
    trial.record.explanation = lossgrid::explain(*trial.failure, facts ? &*facts : nullptr, words);
    if (first && second && second->failed()) {
      add_causes_in_both({first->setup, first->outcome}, {second->setup, second->outcome},
                         words.returns_loss, trial.record.explanation);
    }
  }
  const std::chrono::nanoseconds took(steady_clock_ns() - begin);
  spent += took;
  spent_by_all_ += took;
}

}  // namespace lossgrid
