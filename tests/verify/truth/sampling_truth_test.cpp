// SPDX-License-Identifier: Apache-2.0
// The truth of losses over kept sets: the log-probability of a target outside, and the gradient
// against differences of a loss that is written out here, with the sets kept as they are.
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "harness/problem/batch/problem.h"
#include "harness/verify/checks/expected.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kSampledVocab = 9;

Problem sampled_problem(const std::string& more) {
  return make_problem(
      parse_case("lens=7+5+6 mask=all vocab=9 dtype=f64 top_k=4 temperature=0.7 "
                 "logit_softcap=3 " +
                 more));
}

Truth nll_truth(const Problem& problem) {
  return make_truth(problem, compute_rows(problem, 1), *find_objective("nll").make({}), 12);
}

/// z of a logit, in long double.
long double z_of(long double x) {
  return 3 * std::tanh(x / 3) / 0.7L;
}

/// Returns the log-probability of a row over its kept set; 0 for a target outside.
long double filtered_logprob(const Problem& problem, std::int64_t t, std::int32_t target,
                             const std::vector<long double>& x) {
  if (!problem.sampling_mask->keeps(t, target)) return 0;
  long double sum = 0;
  for (std::int64_t v = 0; v < kSampledVocab; ++v) {
    if (problem.sampling_mask->keeps(t, v)) sum += std::exp(z_of(x[static_cast<std::size_t>(v)]));
  }
  return z_of(x[static_cast<std::size_t>(target)]) - std::log(sum);
}

class SamplingTruth : public ::testing::TestWithParam<const char*> {};

TEST_P(SamplingTruth, IsThatOfTheKeptSet) {
  const Problem problem = sampled_problem(GetParam());
  const Truth truth = nll_truth(problem);
  const BundleResults results = expected_results(problem, truth);
  const std::vector<std::int32_t> targets = problem.row_targets();
  const std::vector<std::uint8_t> valid = problem.row_valid();
  const auto count = static_cast<long double>(problem.denominators.valid_tokens);
  ASSERT_LT(problem.zeroes_filtered_targets() ? 14 : 4, count);
  long double loss = 0;
  int outside = 0;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const auto row = static_cast<std::size_t>(t);
    std::vector<double> given(kSampledVocab);
    problem.given_logits().read(t, 0, std::span<double>(given));
    const std::vector<long double> x(given.begin(), given.end());
    if (targets[row] >= 0) outside += !problem.sampling_mask->keeps(t, targets[row]);
    if (valid[row] != 0) loss -= filtered_logprob(problem, t, targets[row], x) / count;
    for (std::size_t v = 0; v < x.size(); ++v) {
      long double want = 0;
      if (valid[row] != 0) {
        constexpr long double kStep = 1e-5L;
        std::vector<long double> up = x;
        std::vector<long double> down = x;
        up[v] += kStep;
        down[v] -= kStep;
        want = (filtered_logprob(problem, t, targets[row], down) -
                filtered_logprob(problem, t, targets[row], up)) /
               (2 * kStep * count);
      }
      const double got = results.grad_logits[row * kSampledVocab + v];
      EXPECT_NEAR(got, static_cast<double>(want), 1e-10) << t << " " << v;
      if (!problem.sampling_mask->keeps(t, static_cast<std::int64_t>(v))) {
        EXPECT_EQ(got, 0);
      }
    }
  }
  EXPECT_GT(outside, 0);
  EXPECT_NEAR(*results.loss, static_cast<double>(loss), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Both, SamplingTruth,
                         ::testing::Values("filtered_targets=drop", "filtered_targets=zero"));

TEST(SamplingTruthRows, ATargetOutsideHasAnExactLogprobOrNone) {
  for (const bool zero : {false, true}) {
    const Problem problem =
        sampled_problem(zero ? "filtered_targets=zero" : "filtered_targets=drop");
    const std::vector<RowTruth> rows = compute_rows(problem, 1);
    const std::vector<std::int32_t> targets = problem.row_targets();
    for (std::size_t t = 0; t < rows.size(); ++t) {
      if (!problem.leaves_out_target(static_cast<std::int64_t>(t), targets[t])) {
        EXPECT_FALSE(rows[t].is_filtered);
        continue;
      }
      EXPECT_EQ(rows[t].is_filtered, zero);
      EXPECT_EQ(rows[t].logprob, zero ? 0 : -std::numeric_limits<double>::infinity());
      EXPECT_EQ(logprob_bound(rows[t], 12), 0);
      EXPECT_EQ(rows[t].finite, 4);
    }
  }
}

}  // namespace
}  // namespace lossgrid
