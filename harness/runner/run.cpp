// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/run.h"

#include <algorithm>
#include <map>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/runner/explain/explainer.h"
#include "harness/runner/timing/recorded_times.h"
#include "harness/runner/trial/trial.h"
#include "harness/runner/verdict/bit_comparison.h"
#include "harness/runner/verdict/trial_verdict.h"
#include "harness/verify/truth/unpadded_batch.h"

namespace lossgrid {
namespace {

/// `reference` first, then by name.
std::vector<std::string> implementations_from(bool hidden) {
  std::vector<std::string> names;
  for (const ImplementationEntry* entry : implementations(ImplementationKind::real)) {
    if (!inputs_mismatch(*entry->make({}), hidden)) names.push_back(entry->name);
  }
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == "reference"; });
  return names;
}

}  // namespace

const std::vector<std::string>& default_implementations(bool from_hidden) {
  static const std::vector<std::string> from_logits = implementations_from(false);
  static const std::vector<std::string> from_states = implementations_from(true);
  return from_hidden ? from_states : from_logits;
}

namespace {

/// Describes a trial without its batch: no tokens are counted.
TrialRecord describe_unprepared(const CaseSpec& spec, const std::string& implementation,
                                const Grid& grid, Backend backend) {
  Problem empty;
  empty.spec = spec;
  empty.source = FromCase{format_case(spec)};
  empty.cu_seqlens = {0};
  return describe_trial(empty, implementation, grid, backend);
}

/// Returns parts of the reasons for which the suite lets `implementation`, made from `text`, refuse
/// the case. A mutant or control counts as its strategy, since no suite names it. Code and files of
/// a user may refuse anything.
std::optional<std::vector<std::string>> stated_skips(const Suite& suite, const CaseSpec& spec,
                                                     const LossImplementation& implementation,
                                                     const std::string& text) {
  const ImplementationTraits traits = implementation.describe();
  if (!suite.skips || traits.is_external || traits.plays_back) return std::nullopt;
  const std::size_t options = std::min(text.find(':'), text.size());
  return stated_reasons(*suite.skips, traits.name + text.substr(options), spec);
}

/// Runs a trial of a case, the `number`-th of the run, or takes it over.
TrialOutcome run_case(const Suite& suite, const CaseSpec& spec, const std::string& implementation,
                      const Grid& grid, std::int64_t number, const RunOptions& options,
                      ProblemCache& problems, Explainer& explainer) {
  const Backend backend = suite.backend;
  TrialOutcome trial;
  const std::string text = format_case(spec);
  const std::string id = trial_id(text, grid, implementation, backend);
  if (options.finished.contains(id)) {
    trial.record = options.finished.trial(id);
    return trial;
  }
  options.begins(id, reproduce_case(text, implementation, grid, backend) +
                         (options.ranks.has_nccl() ? " --transport nccl" : ""));
  const PreparedProblem& prepared = problems.get(spec);
  TrialFacts facts;
  facts.skipped = options.ranks.agree_on_first_error(prepared.memory_shortage);
  if (facts.may_run()) {
    TrialSetup setup = make_trial(prepared, implementation, grid, backend);
    setup.fault = fault_of(options, number);
    setup.stated_skips = stated_skips(suite, spec, *setup.implementation, implementation);
    setup.recording = record_trial(options.recording, "trial", number,
                                   format_grid(grid) + "_" + implementation, id, implementation);
    trial = run_trial(setup, options.deadline, options.ranks);
    if (options.explains) explainer.explain({spec, implementation, grid, backend}, trial);
    trial.record.case_name = spec.name;
    if (options.machine) {
      add_predicted_times(prepared, grid, backend, *options.machine, trial.record);
    }
    return trial;
  }
  trial.record = describe_unprepared(spec, implementation, grid, backend);
  set_verdict(trial.record, facts);
  return trial;
}

}  // namespace

namespace {

/// A case and an implementation, on all grids of their suite.
struct TrialSeries {
  const Suite* suite;
  const CaseSpec* spec;
  const std::string* implementation;
  BitComparison bits;
};

std::vector<TrialSeries> series_of(const std::vector<Suite>& suites) {
  std::vector<TrialSeries> all;
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) {
      for (const std::string& text : suite.implementations) {
        all.push_back({&suite, &spec, &text, {}});
      }
    }
  }
  return all;
}

struct TrialPlace {
  TrialSeries* series;
  std::size_t grid;
};

std::vector<TrialPlace> places_of(std::vector<TrialSeries>& all, TrialOrder order) {
  std::vector<TrialPlace> places;
  for (TrialSeries& series : all) {
    for (std::size_t grid = 0; grid < series.suite->grids.size(); ++grid) {
      places.push_back({&series, grid});
    }
  }
  if (order == TrialOrder::by_grid) {
    std::stable_sort(places.begin(), places.end(),
                     [](const TrialPlace& a, const TrialPlace& b) { return a.grid < b.grid; });
  }
  return places;
}

}  // namespace

bool run_suites(const std::vector<Suite>& suites, const RunOptions& options, ProblemCache& problems,
                const TrialSink& sink) {
  std::vector<TrialSeries> all = series_of(suites);
  Explainer explainer(options.deadline, options.ranks);
  std::int64_t number = 0;  // of the trial, also of one that does not run: same in a resumed run
  for (const auto& [series, grid] : places_of(all, options.order)) {
    TrialOutcome trial =
        run_case(*series->suite, *series->spec, *series->implementation, series->suite->grids[grid],
                 ++number, options, problems, explainer);
    series->bits.judge(trial.record);
    if (grid + 1 == series->suite->grids.size()) series->bits = {};  // it keeps records
    const bool goes_on = sink(trial.record);
    if (trial.must_end) return true;
    if (!goes_on) return false;
    if (options.stop_at_failure && options.ranks.agree_on_any(is_bad(trial.record.status))) {
      return false;
    }
  }
  return false;
}

std::vector<TrialRecord> planned_trials(const std::vector<Suite>& suites) {
  std::vector<TrialRecord> trials;
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) {
      for (const std::string& text : suite.implementations) {
        for (const Grid& grid : suite.grids)
          trials.push_back(describe_unprepared(spec, text, grid, suite.backend));
      }
    }
  }
  return trials;
}

void add_not_run(std::vector<TrialRecord> planned, const std::string& reason, TrialList& trials) {
  for (std::size_t k = trials.size(); k < planned.size(); ++k) {
    set_verdict(planned[k], {.not_reached = reason});
    trials.push_back(std::move(planned[k]));
  }
}

SkipReason end_of_run_after(const TrialRecord& last) {
  return {last.status == TrialStatus::timeout ? "a rank of an earlier trial hangs"
                                              : "a rank of an earlier trial has lost its GPU"};
}

void compare_bits(const std::vector<Suite>& suites, std::vector<TrialRecord>& trials) {
  auto trial = trials.begin();
  for (const Suite& suite : suites) {
    const std::size_t series = suite.cases.size() * suite.implementations.size();
    for (std::size_t k = 0; k < series; ++k) {
      BitComparison bits;
      for (std::size_t grid = 0; grid < suite.grids.size(); ++grid) bits.judge(*trial++);
    }
  }
}

void require_runnable(const std::vector<Suite>& suites, int max_ranks, const Ranks& ranks) {
  for (const Suite& suite : suites) {
    for (const std::string& text : suite.implementations) make_implementation(text);
    for (const Grid& grid : suite.grids) {
      if (grid.ranks() > max_ranks) {
        throw_bad_input("grid {} needs {} ranks, at most {} are allowed (--max-ranks)",
                        format_grid(grid), grid.ranks(), max_ranks);
      }
      if (ranks.limit() > 0 && grid.ranks() > ranks.limit()) {
        throw_bad_input("grid {} needs {} ranks, the MPI job has {} processes", format_grid(grid),
                        grid.ranks(), ranks.limit());
      }
    }
    for (const CaseSpec& spec : suite.cases) {
      const auto objective = make_objective(spec.objective, spec.statistics, spec.predictions);
      const bool has_pairs = objective->needs().sequences_per_unit > 1;
      if (has_pairs && !memory_shortage(case_memory_bytes(spec))) {
        objective->require(unpadded_batch(make_problem(spec)));
      }
      for (const Grid& grid : suite.grids) {
        if (vocab_ranks(spec.vocab, grid.tp) > spec.vocab) {
          throw_bad_input("grid {}: tp = {} exceeds the vocabulary of {} (case \"{}\")",
                          format_grid(grid), grid.tp, spec.vocab, format_case(spec));
        }
      }
    }
  }
}

ExitCode exit_code_of(const TrialList& trials) {
  bool ran = false;
  ExitCode code = ExitCode::ok;
  for (const TrialRecord& trial : trials) {
    ran = ran || (trial.status != TrialStatus::skipped && trial.status != TrialStatus::not_run);
    code = worst(code, exit_code_of(trial));
  }
  return ran ? code : ExitCode::nothing_ran;
}

}  // namespace lossgrid
