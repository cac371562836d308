// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/problem_cache.h"

#include <algorithm>
#include <thread>

#include "harness/loss/registry.h"
#include "harness/runner/memory_plan.h"

namespace lossgrid {

PreparedProblem prepare(Problem problem) {
  PreparedProblem prepared;
  prepared.objective =
      find_objective(problem.spec.objective.kind).make(problem.spec.objective.options);
  prepared.problem = std::make_shared<const Problem>(std::move(problem));
  if (prepared.problem->logits) {
    const int threads = std::max(1u, std::thread::hardware_concurrency());
    prepared.truth = std::make_shared<const Truth>(
        compute_truth(*prepared.problem, *prepared.objective, threads));
  }
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
