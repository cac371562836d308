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

/// What check_gradient allows, element by element [T, V], around `want`.
std::vector<double> gradient_bounds(const Problem& problem, const Truth& truth, int serial_adds,
                                    const std::vector<double>& want) {
  const std::int64_t vocab = problem.spec.vocab;
  std::vector<double> bounds(static_cast<std::size_t>(problem.tokens() * vocab), 0.0);
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  std::vector<double> p(logits.size());
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const RowTruth& row = truth.rows[t];
    if (!row.valid) continue;  // rows that take no part are exactly zero
    const GradientBound bound(row, truth.objective.grad_logprob[t], problem.spec.dtype,
                              serial_adds);
    problem.logits->read(t, 0, std::span<double>(logits));
    truth_probabilities(row, logits, p);
    for (std::int64_t v = 0; v < vocab; ++v) {
      const bool is_target = v == row.target;
      bounds[t * vocab + v] = bound.rounding(want[t * vocab + v], p[v], is_target) +
                              bound.computation(logits[v], p[v], is_target) +
                              bound.objective(p[v], is_target);
    }
  }
  return bounds;
}

Check check_grad_logits(const Problem& problem, const Truth& truth, int serial_adds,
                        const BundleResults& expected, const BundleResults& got) {
  Check check("expected.grad_logits");
  const std::int64_t vocab = problem.spec.vocab;
  const std::vector<double> bounds =
      gradient_bounds(problem, truth, serial_adds, expected.grad_logits);
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const std::int64_t sequence = sequence_of(problem, t);
    for (std::int64_t v = 0; v < vocab; ++v) {
      const std::int64_t at = t * vocab + v;
      check.add(got.grad_logits[at], expected.grad_logits[at], bounds[at],
                {0, sequence, t - problem.cu_seqlens[sequence], v});
    }
  }
  return check;
}

/// The bounds of d logits carried through the products with |weight| and |hidden|.
void check_projected_gradients(const Problem& problem, const Truth& truth, int serial_adds,
                               const BundleResults& expected, const BundleResults& got,
                               std::vector<Check>& checks) {
  Projection magnitudes = *problem.projection;
  for (float& x : magnitudes.hidden) x = std::abs(x);
  for (float& w : magnitudes.weight) w = std::abs(w);
  const std::vector<double> bounds = gradient_bounds(problem, truth, serial_adds, got.grad_logits);
  const std::int64_t width = magnitudes.size;
  const std::vector<double> hidden_bounds = grad_hidden(magnitudes, bounds);
  checks.emplace_back("expected.grad_hidden");
  for (std::size_t k = 0; k < hidden_bounds.size(); ++k) {
    const std::int64_t token = static_cast<std::int64_t>(k) / width;
    const std::int64_t sequence = sequence_of(problem, token);
    checks.back().add(got.grad_hidden[k], expected.grad_hidden[k], hidden_bounds[k],
                      {0, sequence, token - problem.cu_seqlens[sequence]});
  }
  const std::vector<double> weight_bounds = grad_weight(magnitudes, bounds);
  checks.emplace_back("expected.grad_weight");
  for (std::size_t k = 0; k < weight_bounds.size(); ++k) {
    checks.back().add(got.grad_weight[k], expected.grad_weight[k], weight_bounds[k],
                      {0, -1, -1, static_cast<std::int64_t>(k) / width});
  }
}

}  // namespace

void project_gradient(const Problem& problem, BundleResults& results) {
  if (!problem.projection) return;
  results.grad_hidden = grad_hidden(*problem.projection, results.grad_logits);
  results.grad_weight = grad_weight(*problem.projection, results.grad_logits);
}

BundleResults expected_results(const Problem& problem, const Truth& truth) {
  BundleResults results;
  const std::int64_t vocab = problem.spec.vocab;
  results.loss = truth.objective.loss.value;
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
    truth_gradient(row, truth.objective.grad_logprob[t].value, logits, 0,
                   std::span<double>(results.grad_logits).subspan(t * vocab, vocab));
  }
  for (const auto& [name, metric] : truth.objective.metrics) {
    if (const auto value = metric.value()) results.metrics[name] = value->value;
  }
  project_gradient(problem, results);
  return results;
}

std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double u32 = unit_roundoff(DType::f32);
  std::vector<Check> checks{Check("expected.loss")};
  checks[0].add(got.loss, expected.loss,
                truth.objective.loss.radius() + u32 * std::abs(expected.loss), {});
  for (const auto& [name, want] : expected.metrics) {
    const auto ours = truth.objective.metrics.find(name);
    const auto entry = got.metrics.find(name);
    double bound = u32 * std::abs(want);
    if (ours != truth.objective.metrics.end() && ours->second.value()) {
      bound += ours->second.value()->radius();
    }
    checks.emplace_back("expected.metric." + name);
    checks.back().add(entry == got.metrics.end() ? nan : entry->second, want, bound, {});
  }
  checks.emplace_back("expected.logprobs");
  for (std::int64_t t = 0; t + 1 < problem.tokens(); ++t) {
    if (truth.rows[t].target < 0) continue;
    const std::int64_t sequence = sequence_of(problem, t);
    checks.back().add(got.logprobs[t + 1], expected.logprobs[t + 1],
                      logprob_bound(truth.rows[t], serial_adds),
                      {0, sequence, t - problem.cu_seqlens[sequence], truth.rows[t].target});
  }
  if (problem.projection) {
    check_projected_gradients(problem, truth, serial_adds, expected, got, checks);
  } else {
    checks.push_back(check_grad_logits(problem, truth, serial_adds, expected, got));
  }
  return checks;
}

}  // namespace lossgrid
