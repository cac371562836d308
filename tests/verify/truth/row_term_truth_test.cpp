// SPDX-License-Identifier: Apache-2.0
// The log-sum-exp and the mean log-probability of a row: their truth, the errors of made logits,
// and their way through the truth of a problem.
#include <array>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/partition.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/logit_gradient.h"
#include "harness/verify/truth/usable_truth.h"
#include "term_objective.h"

namespace lossgrid {
namespace {

constexpr double kTermInf = std::numeric_limits<double>::infinity();

TEST(RowTerms, AreTheFormulasInLongDouble) {
  const std::vector<double> logits{0.5, -kTermInf, 3.0, 2.999, -40.0, -kTermInf, 300.0 / 128};
  long double sum = 0;
  for (const double x : logits) sum += std::exp(static_cast<long double>(x));
  const long double lse = std::log(sum);
  long double mean = 0;
  for (const double x : logits) mean += std::isinf(x) ? 0 : (x - lse) / 7;
  for (std::int32_t y = 0; y < 7; ++y) {
    const RowTruth row = row_truth(logits, y);
    EXPECT_NEAR(row.logsumexp(), static_cast<double>(lse), 1e-15);
    EXPECT_NEAR(row.mean_logprob(), static_cast<double>(mean), 1e-14);
    EXPECT_EQ(row.finite, 5);
  }
}

TEST(RowTerms, MatchTheClosedFormForEqualLogits) {
  const RowTruth row = row_truth(std::vector<double>(8, 5.0), 3);
  EXPECT_DOUBLE_EQ(row.logsumexp(), 5 + std::log(8));
  EXPECT_DOUBLE_EQ(row.mean_logprob(), -std::log(8));
}

TEST(RowTerms, ErrorsOfLogitsAreDerivatives) {
  const std::vector<double> logits{0.5, -1.25, 3.0, 2.9, -4.0, -kTermInf};
  const std::vector<double> errors{1e-6, 3e-6, 2e-6, 1e-7, 5e-6, 1};
  const RowTruth row = row_truth(logits, 1, errors);
  const RowTruth exact = row_truth(logits, 1);
  std::vector<double> all_up = logits;
  std::vector<double> toward_mean = logits;
  std::vector<double> p(6);
  truth_probabilities(row, logits, p);
  for (std::size_t v = 0; v < 5; ++v) {
    all_up[v] += errors[v];
    toward_mean[v] += 1.0 / 6 > 5.0 / 6 * p[v] ? errors[v] : -errors[v];
  }
  const double change = row_truth(all_up, 1).logsumexp() - row.logsumexp();
  EXPECT_NEAR(change, row.mean_error, 1e-4 * change);
  EXPECT_DOUBLE_EQ(row.term_error[RowTerm::mean_logprob],
                   (1e-6 + 3e-6 + 2e-6 + 1e-7 + 5e-6) / 6 + 5.0 / 6 * row.mean_error);
  const double mean = row_truth(toward_mean, 1).mean_logprob() - row.mean_logprob();
  EXPECT_LE(mean, row.term_error[RowTerm::mean_logprob]);
  EXPECT_GT(mean, 0.3 * row.term_error[RowTerm::mean_logprob]);
  EXPECT_NEAR(logsumexp_bound(row, 12) - logsumexp_bound(exact, 12), row.mean_error, 1e-18);
  EXPECT_NEAR(mean_logprob_bound(row, 12) - mean_logprob_bound(exact, 12),
              row.term_error[RowTerm::mean_logprob], 1e-18);
}

TEST(RowTerms, AreFiniteForFiniteLogits) {
  constexpr double kLowest = std::numeric_limits<double>::lowest();
  for (const std::vector<double>& logits :
       {std::vector<double>(16, -1e30), std::vector<double>(16, kLowest),
        std::vector<double>{0, 1, kLowest, kLowest}, std::vector<double>{1e300, -0.5, 1, -1e30},
        std::vector<double>{-kLowest, 1, kLowest, kLowest},
        std::vector<double>{-3.4e38, 3.4e38, 0, 1}}) {
    RowTruth row = row_truth(logits, 1);
    row.reads_as_float32 = true;
    EXPECT_TRUE(std::isfinite(row.logsumexp()));
    EXPECT_TRUE(std::isfinite(row.mean_logprob()));
    EXPECT_TRUE(std::isfinite(logsumexp_bound(row, 12)));
    EXPECT_TRUE(std::isfinite(mean_logprob_bound(row, 12)));
    const GradientBound bound(row, kAllTerms.gradient(), DType::f32, 12);
    for (const double x : logits) {
      const double p = std::exp(x - row.max) / row.sum;
      EXPECT_TRUE(std::isfinite(bound.computation(x, p, false))) << x;
      EXPECT_TRUE(std::isfinite(LogitGradient(row, kAllTerms.gradient()).at(x, p, false))) << x;
    }
  }
}

Truth truth_of_terms(const Problem& problem, const TermWeights& weights) {
  return make_truth(problem, compute_rows(problem, 1), TermObjective(weights), 12);
}

TEST(RowTerms, ReachTheObjectiveWithinTheirBounds) {
  class Reader final : public Objective {
   public:
    std::string_view kind() const override { return "reader"; }
    ObjectiveSizes sizes() const override { return {}; }
    void token_terms(const ObjectiveTokens&, const PackedBatch&, SequenceTable<const double>,
                     ObjectiveTotals<double>, const TokenGradients&) const override {}
    ObjectiveResult finish(const PackedBatch&, SequenceTable<const double>,
                           SequenceTable<const double>,
                           ObjectiveTotals<const double>) const override {
      return {};
    }
    ObjectiveTruth truth(const PackedBatch&, std::span<const TokenTruth> rows) const override {
      seen.assign(rows.begin(), rows.end());
      ObjectiveTruth truth;
      truth.grad_logprob.assign(rows.size(), 0.0);
      return truth;
    }
    mutable std::vector<TokenTruth> seen;
  };
  const Problem problem = make_problem(parse_case("lens=3 mask=all vocab=9 values=masked_vocab"));
  const Reader reader;
  const Truth truth = make_truth(problem, compute_rows(problem, 1), reader, 12);
  for (std::size_t t = 0; t < 2; ++t) {
    const RowTruth& row = truth.rows[t];
    const TokenTruth& seen = reader.seen[t];
    EXPECT_LT(row.finite, 9);
    EXPECT_EQ(seen.terms[RowTerm::logsumexp].value, row.logsumexp());
    EXPECT_DOUBLE_EQ(seen.terms[RowTerm::logsumexp].high,
                     row.logsumexp() + logsumexp_bound(row, 12));
    EXPECT_EQ(seen.terms[RowTerm::mean_logprob].value, row.mean_logprob());
    EXPECT_DOUBLE_EQ(seen.terms[RowTerm::mean_logprob].low,
                     row.mean_logprob() - mean_logprob_bound(row, 12));
  }
}

TEST(RowTerms, SlopesOfAllAreTheDerivatives) {
  const std::vector<double> logits{0.5, -1.25, 2, -kTermInf, 0.75, -3};
  const RowTruth row = row_truth(logits, 0);
  for (const RowTerm term : kAllGradientTerms) {
    if (term == RowTerm::divergence) continue;
    RowGradientTruth by_term;
    by_term.terms[term] = 1.0;
    const LogitGradient gradient(row, by_term);
    double sum = 0;
    for (std::size_t v = 0; v < logits.size(); ++v) {
      constexpr double kStep = 1e-5;
      std::vector<double> up = logits;
      std::vector<double> down = logits;
      up[v] += kStep;
      down[v] -= kStep;
      const double change = (row_truth(up, 0).term(term) - row_truth(down, 0).term(term)) / 2;
      const double p = std::exp(logits[v] - row.max) / row.sum;
      const double slope = gradient.at(logits[v], p, v == 0);
      EXPECT_NEAR(slope, change / kStep, 1e-9) << name(term) << ", id " << v;
      sum += slope;
    }
    EXPECT_NEAR(gradient.row_sum(), sum, 1e-14) << name(term);
  }
}

TEST(RowTerms, AGradientByATermMustBeFinite) {
  const Problem problem = make_problem(parse_case("lens=3 mask=011 vocab=4"));
  const Truth right = truth_of_terms(problem, kAllTerms);
  EXPECT_NO_THROW(require_numbers(problem, right));
  for (const RowTerm term : {RowTerm::entropy, RowTerm::logsumexp, RowTerm::mean_logprob}) {
    Truth truth = right;
    std::vector<Enclosure>& column = truth.objective.grad_terms[term];
    column[2].value = kTermInf;  // predicts nothing
    EXPECT_NO_THROW(require_numbers(problem, truth));
    column[1].value = std::nan("");
    EXPECT_THAT(
        [&] { require_numbers(problem, truth); },
        testing::ThrowsMessage<Error>(testing::HasSubstr(
            std::string("d loss / d ").append(name(term)) + " of sequence 0, token 1 is nan")));
  }
}

TEST(RowTerms, PartsOfATruthKeepTheirGradients) {
  const Problem problem = make_problem(parse_case("lens=3+4 mask=all vocab=5"));
  const Truth whole = truth_of_terms(problem, kAllTerms);
  MicrobatchPlan plan;
  plan.sequences = {1};
  const Problem part = take_part(problem, plan, 1, 1);
  const Truth of_part = take_part(whole, part);
  for (std::int64_t t = 0; t < 3; ++t) {
    const RowGradientTruth want = whole.objective.gradient(3 + t);
    const RowGradientTruth got = of_part.objective.gradient(t);
    EXPECT_NE(got.terms[RowTerm::entropy].value, 0);
    EXPECT_EQ(got.logprob.value, want.logprob.value);
    EXPECT_EQ(got.terms[RowTerm::entropy].value, want.terms[RowTerm::entropy].value);
    EXPECT_EQ(got.terms[RowTerm::logsumexp].value, want.terms[RowTerm::logsumexp].value);
    EXPECT_EQ(got.terms[RowTerm::mean_logprob].value, want.terms[RowTerm::mean_logprob].value);
  }
  EXPECT_TRUE(of_part.objective.gradient(3).logprob_alone());  // predicts nothing
  const Truth alone = make_truth(problem, compute_rows(problem, 1), *make_objective({}, false), 12);
  EXPECT_TRUE(take_part(alone, part).objective.grad_terms[RowTerm::entropy].empty());
}

}  // namespace
}  // namespace lossgrid
