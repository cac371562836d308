// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/alternative.h"

#include <algorithm>
#include <vector>

#include "harness/core/error.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/problem/batch/objective_inputs.h"
#include "harness/verify/checks/expected.h"

namespace lossgrid {
namespace {

/// Returns the comparable part of the results: rows that predict nothing have no truth in any
/// alternative.
BundleResults comparable(const Problem& problem, const BundleResults& got) {
  BundleResults results = got;
  results.metrics.clear();
  results.entropy.clear();
  const std::vector<std::int32_t> targets = problem.row_targets();
  for (std::vector<double>* gradient : {&results.grad_logits, &results.grad_hidden}) {
    const std::size_t columns = gradient->size() / targets.size();
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t] >= 0) continue;
      std::fill_n(gradient->begin() + static_cast<std::ptrdiff_t>(t * columns), columns, 0.0);
    }
  }
  return results;
}

/// Returns d hidden [T, H] from the weights of some ids only.
std::vector<double> hidden_gradient_from(const VocabShard& ids, const Problem& problem,
                                         const Truth& truth) {
  const Projection& projection = *problem.projection;
  const std::vector<double> dz = expected_grad_logits(problem, truth);
  std::vector<double> gradient(static_cast<std::size_t>(problem.tokens() * projection.size), 0.0);
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    double* row = gradient.data() + t * projection.size;
    for (std::int64_t id = ids.begin; id < ids.end; ++id) {
      const float* weight = projection.weight_row(id);
      const double factor = dz[static_cast<std::size_t>(t * projection.vocab + id)];
      for (std::int64_t h = 0; h < projection.size; ++h) row[h] += factor * weight[h];
    }
  }
  return gradient;
}

ResultParts compare(const Problem& problem, const Truth& truth, const BundleResults& expected,
                    const TrialResults& results) {
  ResultParts wrong;
  for (const Check& check : check_expected(problem, truth, results.serial_adds, expected,
                                           comparable(problem, results.got), results.declared)) {
    if (check.passed()) continue;
    if (check.name() == "expected.loss") wrong.loss = true;
    if (check.name() == "expected.logprobs") wrong.logprobs = true;
    const bool is_given = results.has_hidden || check.name() != "expected.grad_hidden";
    if (check.name().starts_with("expected.grad") && is_given) wrong.gradients = true;
  }
  return wrong;
}

}  // namespace

ResultParts wrong_parts(const Problem& problem, const Truth& truth, const TrialResults& results) {
  return compare(problem, truth, expected_results(problem, truth), results);
}

ResultParts wrong_parts(const Alternative& alternative, const TrialResults& results) {
  try {
    const Problem& problem = alternative.problem;
    auto rows = compute_rows(problem, process_threads(),
                             divergence_of(alternative.objective->needs(), problem.spec));
    const Truth truth = make_truth(problem, std::move(rows), *alternative.objective,
                                   results.serial_adds, results.rows);
    BundleResults expected = expected_results(problem, truth);
    if (alternative.hidden_of) {
      expected.grad_hidden = hidden_gradient_from(*alternative.hidden_of, problem, truth);
    }
    return compare(problem, truth, expected, results);
  } catch (const Error&) {  // options that exclude each other, a batch without a truth
    return {true, true, true};
  }
}

}  // namespace lossgrid
