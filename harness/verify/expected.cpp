// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/expected.h"

#include <cmath>
#include <limits>

#include "harness/verify/bounds.h"
#include "harness/verify/shard_checks.h"

namespace lossgrid {
namespace {

std::int64_t sequence_of(const Problem& problem, std::int64_t token) {
  std::int64_t i = 0;
  while (problem.cu_seqlens[i + 1] <= token) ++i;
  return i;
}

Check check_grad_logits(const Problem& problem, const Truth& truth, int serial_adds,
                        const BundleResults& expected, const BundleResults& got) {
  Check check("expected.grad_logits");
  const std::int64_t vocab = problem.spec.vocab;
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  std::vector<double> p(logits.size());
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const RowTruth& row = truth.rows[t];
    const double grad = truth.objective.grad_logprob[t];
    const GradientBound bound(row, grad, problem.spec.dtype, serial_adds);
    const std::int64_t sequence = sequence_of(problem, t);
    if (row.valid) {
      problem.logits->read(t, 0, std::span<double>(logits));
      truth_probabilities(row, logits, p);
    }
    for (std::int64_t v = 0; v < vocab; ++v) {
      const double want = expected.grad_logits[t * vocab + v];
      double allowed = 0;  // rows that take no part are exactly zero
      if (row.valid) {
        allowed = bound.rounding(want) + bound.computation(logits[v], p[v], v == row.target);
      }
      check.add(got.grad_logits[t * vocab + v], want, allowed,
                {0, sequence, t - problem.cu_seqlens[sequence], v});
    }
  }
  return check;
}

}  // namespace

BundleResults expected_results(const Problem& problem, const Truth& truth) {
  BundleResults results;
  const std::int64_t vocab = problem.spec.vocab;
  results.loss = truth.objective.loss;
  results.logprobs.assign(static_cast<std::size_t>(problem.tokens()), 0.0);
  results.grad_logits.assign(static_cast<std::size_t>(problem.tokens() * vocab), 0.0);
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const RowTruth& row = truth.rows[t];
    if (row.target < 0) continue;
    results.logprobs[t + 1] = row.logprob;
    if (!row.valid) continue;
    problem.logits->read(t, 0, std::span<double>(logits));
    truth_probabilities(row, logits, logits);
    truth_gradient(row, truth.objective.grad_logprob[t], logits, 0,
                   std::span<double>(results.grad_logits).subspan(t * vocab, vocab));
  }
  for (const auto& [name, metric] : truth.objective.metrics) {
    if (metric.value) results.metrics[name] = *metric.value;
  }
  return results;
}

std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got) {
  Truth around = truth;  // the bounds of our truth, around the bundle's values
  around.objective.loss = expected.loss;
  std::erase_if(around.objective.metrics,
                [&](const auto& metric) { return !expected.metrics.contains(metric.first); });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ObjectiveResult result{got.loss, {}};
  for (const auto& [name, value] : expected.metrics) {
    const auto known = around.objective.metrics.find(name);
    if (known != around.objective.metrics.end()) known->second.value = value;
    const auto entry = got.metrics.find(name);
    result.metrics[name] = entry == got.metrics.end() ? nan : entry->second;
  }
  std::vector<Check> checks;
  for (Check& check : check_result(around, result, serial_adds, 0)) {
    checks.push_back(check.renamed("expected." + check.name()));
  }
  Check logprobs("expected.logprobs");
  for (std::int64_t t = 0; t + 1 < problem.tokens(); ++t) {
    if (truth.rows[t].target < 0) continue;
    const std::int64_t sequence = sequence_of(problem, t);
    logprobs.add(got.logprobs[t + 1], expected.logprobs[t + 1],
                 logprob_bound(truth.rows[t], serial_adds),
                 {0, sequence, t - problem.cu_seqlens[sequence], truth.rows[t].target});
  }
  checks.push_back(logprobs);
  checks.push_back(check_grad_logits(problem, truth, serial_adds, expected, got));
  return checks;
}

}  // namespace lossgrid
