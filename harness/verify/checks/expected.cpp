// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/expected.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/device/kernel/rank_threads.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/input_column.h"
#include "harness/verify/truth/linear_bounds.h"
#include "harness/verify/truth/linear_truth.h"
#include "harness/verify/truth/logit_gradient.h"

namespace lossgrid {
namespace {

using RowBound = double (*)(const RowTruth&, int);

/// Compares log-probabilities or entropies within the `bound` of each row.
Check check_about_tokens(const std::string& name, const Problem& problem, const Truth& truth,
                         int serial_adds, RowBound bound, const std::vector<double>& want,
                         const std::vector<double>& got) {
  Check check(name);
  for (std::int64_t t = 0; t + problem.ahead() < problem.tokens(); ++t) {
    if (!has_logprob(problem, truth.rows[t])) continue;
    const std::int64_t sequence = problem.sequence_of(t);
    const auto about = static_cast<std::size_t>(t + problem.ahead());
    check.add_float32(got[about], want[about], bound(truth.rows[t], serial_adds),
                      {0, sequence, t - problem.cu_seqlens[sequence], truth.rows[t].target});
  }
  return check;
}

/// Compares the gradient of logits, within the bounds of check_gradient around `want`.
Check check_grad_logits(const Problem& problem, const Truth& truth, int serial_adds,
                        const std::vector<double>& want, const std::vector<double>& got) {
  Check check("expected.grad_logits");
  const std::int64_t vocab = problem.spec.vocab;
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  std::vector<double> p(logits.size());
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const RowTruth& row = truth.rows[t];
    const RowGradientTruth numbers = truth.objective.gradient(t);
    const GradientBound bound(row, numbers, problem.spec.dtype, serial_adds);
    const LogitGradient gradient(row, numbers);
    const InputTransform transform = input_transform(problem, row, t);
    const DivergenceColumns divergences(problem, row, numbers.terms[RowTerm::divergence], t, 0,
                                        vocab, serial_adds);
    const std::int64_t sequence = problem.sequence_of(t);
    problem.logits->read(t, 0, std::span<double>(logits));
    truth_probabilities(row, logits, p);
    for (std::int64_t v = 0; v < vocab; ++v) {
      const std::int64_t at = t * vocab + v;
      double slack = 0;  // rows that take no part are exactly zero
      if (row.valid) {
        DivergenceColumn divergence;
        if (divergences.is_any()) {
          divergence = divergences.at(v, logits[v], transform.error(logits[v]));
        }
        slack = input_column(bound, gradient, transform, logits[v], p[v], v == row.target,
                             &want[at], &divergence)
                    .bound();
      }
      check.add(got[at], want[at], slack, {0, sequence, t - problem.cu_seqlens[sequence], v});
    }
  }
  return check;
}

/// Compares the gradient of hidden states. Rows that take no part in the loss are exactly zero.
Check check_grad_hidden(const Problem& problem, const Truth& truth, const LinearBound& bound,
                        const std::vector<double>& want, const std::vector<double>& got) {
  Check check("expected.grad_hidden");
  const LinearTruth& linear = *truth.linear;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const std::int64_t row = linear.hidden.find(t);
    if (truth.rows[t].valid && row < 0) continue;
    const std::int64_t sequence = problem.sequence_of(t);
    for (std::int64_t h = 0; h < linear.size; ++h) {
      const std::int64_t at = t * linear.size + h;
      const double slack =
          row < 0 ? 0.0
                  : bound.element(linear.hidden, static_cast<std::size_t>(row * linear.factors + h),
                                  want[at], 0);
      check.add(got[at], want[at], slack, {0, sequence, t - problem.cu_seqlens[sequence]});
    }
  }
  return check;
}

Check check_grad_weight(const Truth& truth, const LinearBound& bound,
                        const std::vector<double>& want, const std::vector<double>& got) {
  Check check("expected.grad_weight");
  const LinearTruth& linear = *truth.linear;
  for (std::size_t k = 0; k < linear.weight.rows.size(); ++k) {
    const std::int64_t id = linear.weight.rows[k];
    for (std::int64_t h = 0; h < linear.size; ++h) {
      const std::int64_t at = id * linear.size + h;
      check.add(got[at], want[at],
                bound.element(linear.weight, k * static_cast<std::size_t>(linear.factors) + h,
                              want[at], 0),
                {0, -1, -1, id});
    }
  }
  return check;
}

/// Compares the gradient of the bias, the last column of the truth of the weight's.
Check check_grad_bias(const Truth& truth, const LinearBound& bound, const std::vector<double>& want,
                      const std::vector<double>& got) {
  Check check("expected.grad_bias");
  const LinearTruth& linear = *truth.linear;
  for (std::size_t k = 0; k < linear.weight.rows.size(); ++k) {
    const std::int64_t id = linear.weight.rows[k];
    const auto at = k * static_cast<std::size_t>(linear.factors) + linear.size;
    check.add(got[id], want[id], bound.element(linear.weight, at, want[id], 0), {0, -1, -1, id});
  }
  return check;
}

void add_expected_linear(const Problem& problem, const Truth& truth, BundleResults& results) {
  std::shared_ptr<const LinearTruth> linear = truth.linear;
  if (linear->sampled) {
    linear = std::make_shared<const LinearTruth>(
        make_linear_truth(problem, truth.rows, truth.objective, 0, process_threads(), kNoLimits));
  }
  const std::int64_t size = linear->size;
  results.grad_hidden.assign(static_cast<std::size_t>(problem.tokens() * size), 0.0);
  for (std::size_t k = 0; k < linear->hidden.rows.size(); ++k) {
    std::copy_n(linear->hidden.want.begin() + k * linear->factors, size,
                results.grad_hidden.begin() + linear->hidden.rows[k] * size);
  }
  for (std::int64_t id = 0; id < problem.spec.vocab; ++id) {
    const double* row = linear->weight.want.data() + id * linear->factors;
    results.grad_weight.insert(results.grad_weight.end(), row, row + size);
    if (linear->has_bias()) results.grad_bias.push_back(row[size]);
  }
}

}  // namespace

std::vector<double> expected_grad_logits(const Problem& problem, const Truth& truth) {
  const std::int64_t vocab = problem.spec.vocab;
  std::vector<double> gradient(static_cast<std::size_t>(problem.tokens() * vocab), 0.0);
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  std::vector<double> p(logits.size());
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const RowTruth& row = truth.rows[t];
    if (!row.valid) continue;
    problem.logits->read(t, 0, std::span<double>(logits));
    truth_probabilities(row, logits, p);
    const std::span<double> out = std::span<double>(gradient).subspan(t * vocab, vocab);
    LogitGradient(row, truth.objective.gradient(t)).write(logits, p, 0, out);
    const TrueRowTransform transform = problem.transform_of_row(t);
    const DivergenceColumns divergences(
        problem, row, truth.objective.gradient(t).terms[RowTerm::divergence], t, 0, vocab, 0);
    for (std::int64_t v = 0; v < vocab; ++v) {
      if (divergences.is_any()) out[v] += divergences.at(v, logits[v], 0).want;
      out[v] *= transform.slope(logits[v]);
    }
  }
  return gradient;
}

BundleResults expected_results(const Problem& problem, const Truth& truth) {
  BundleResults results;
  results.loss = truth.objective.loss.value;
  results.logprobs.assign(static_cast<std::size_t>(problem.tokens()), 0.0);
  results.entropy = results.logprobs;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    if (truth.rows[t].target < 0) continue;
    const auto about = static_cast<std::size_t>(t + problem.ahead());
    results.logprobs[about] = truth.rows[t].logprob;
    results.entropy[about] = truth.rows[t].entropy();
  }
  for (const auto& [name, metric] : truth.objective.metrics) {
    if (const auto value = metric.value()) results.metrics[name] = value->value;
  }
  if (problem.projection) {
    add_expected_linear(problem, truth, results);
  } else {
    results.grad_logits = expected_grad_logits(problem, truth);
  }
  return results;
}

std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got,
                                  const DeclaredRoundings& declared) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double u32 = unit_roundoff(DType::f32);
  std::vector<Check> checks;
  if (got.loss) {
    checks.emplace_back("expected.loss");
    checks[0].add(*got.loss, *expected.loss,
                  truth.objective.loss.radius() + declared.loss * std::abs(*expected.loss), {});
  }
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
  if (!got.logprobs.empty()) {
    checks.push_back(check_about_tokens("expected.logprobs", problem, truth, serial_adds,
                                        logprob_bound, expected.logprobs, got.logprobs));
  }
  if (!got.entropy.empty() && !expected.entropy.empty()) {
    checks.push_back(check_about_tokens("expected.entropy", problem, truth, serial_adds,
                                        entropy_bound, expected.entropy, got.entropy));
  }
  if (problem.projection) {
    if (got.grad_hidden.empty()) return checks;
    const LinearBound hidden(truth, problem.spec.dtype, declared.grad_logits, 0);
    const LinearBound weight = LinearBound::of_weight(truth, declared);
    checks.push_back(
        check_grad_hidden(problem, truth, hidden, expected.grad_hidden, got.grad_hidden));
    checks.push_back(check_grad_weight(truth, weight, expected.grad_weight, got.grad_weight));
    if (problem.spec.lm_head_bias) {
      checks.push_back(check_grad_bias(truth, weight, expected.grad_bias, got.grad_bias));
    }
  } else if (!got.grad_logits.empty()) {
    checks.push_back(
        check_grad_logits(problem, truth, serial_adds, expected.grad_logits, got.grad_logits));
  }
  return checks;
}

}  // namespace lossgrid
