// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/problem_cache.h"

#include <algorithm>
#include <thread>

#include "harness/loss/registry.h"
#include "harness/runner/memory_plan.h"

namespace lossgrid {

PreparedProblem prepare(Problem problem) {
  const CaseSpec& spec = problem.spec;
  PreparedProblem prepared;
  prepared.objective = make_objective(spec.objective, spec.statistics);
  prepared.rows =
      compute_rows(problem, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  const ObjectiveNeeds needs = prepared.objective->needs();
  if (problem.source.starts_with("--case")) {
    std::vector<double> logprobs;
    for (const RowTruth& row : prepared.rows) logprobs.push_back(row.logprob);
    draw_objective_inputs(problem, needs, logprobs);
  } else {
    require_objective_inputs(problem, needs);
  }
  prepared.objective->require(unpadded_batch(problem));
  prepared.problem = std::make_shared<const Problem>(std::move(problem));
  return prepared;
}

const PreparedProblem& ProblemCache::get(const CaseSpec& spec) {
  const auto [entry, is_new] = entries_.try_emplace(format_case(spec));
  PreparedProblem& prepared = entry->second;
  if (is_new) {
    prepared.why_too_big = why_too_big(case_memory_bytes(spec));
    if (prepared.why_too_big.empty()) prepared = prepare(make_problem(spec));
  }
  return prepared;
}

}  // namespace lossgrid
