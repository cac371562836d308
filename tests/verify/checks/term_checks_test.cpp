// SPDX-License-Identifier: Apache-2.0
// Checks of a rank's results where the loss depends on row terms.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "check_named.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/checks/expected.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/logit_gradient.h"
#include "one_row.h"
#include "term_emulation.h"
#include "term_objective.h"

namespace lossgrid {
namespace {

// OneRow with x = (ln 3, 0) has m = ln 3, s = 4/3, S1 = ln 3 / 4, A = ln 3 / 2, 12 serial
// additions.
constexpr double kLogsumexp = 1.3862943611198906;    // ln 4
constexpr double kMeanLogprob = -0.836988216785836;  // -A - ln s
// 4 (8 + S1 + ln s + ln 4) + 12
constexpr double kLogsumexpBound = 51.79452 * kRoundoff32;
// 4 (8 + A + ln s - M) + (1 + A) 12
constexpr double kMeanLogprobBound = 57.28758 * kRoundoff32;
// 4 ln 4, for float64 logits
constexpr double kTermReading = 5.545177 * kRoundoff32;

std::vector<Check> checks_of(const OneRow& row, double logsumexp, double mean_logprob,
                             const Outputs& outputs = {}) {
  std::vector<float> columns[3];
  for (auto& column : columns) column.assign(2, 0.0f);
  columns[0][0] = static_cast<float>(row.truth.rows[0].logprob);
  columns[1][0] = static_cast<float>(logsumexp);
  columns[2][0] = static_cast<float>(mean_logprob);
  TokenOutputs got;
  got.logprobs = columns[0];
  got.terms[RowTerm::logsumexp] = columns[1];
  got.terms[RowTerm::mean_logprob] = columns[2];
  return check_tokens(row.problem, row.truth, row.places, got, outputs, OneRow::kSerialAdds, 0);
}

TEST(TermChecks, AreSharpForTokens) {
  for (const DType dtype : kFloatingDtypes) {
    for (const bool is_trained : {true, false}) {
      const OneRow row(dtype, {kLn3, 0}, 1, is_trained);
      const std::string in = " in " + std::string(name(dtype));
      const std::vector<Check> checks = checks_of(row, kLogsumexp, kMeanLogprob);
      for (const char* term : {"logprobs", "logsumexp", "mean_logprob"}) {
        EXPECT_EQ(check_named(checks, term).compared(), 1);
      }
      expect_sharp("logsumexp" + in, [&](double share) {
        const double off = share * kLogsumexpBound;
        return check_named(checks_of(row, kLogsumexp + off, kMeanLogprob), "logsumexp").passed();
      });
      const double reading = dtype == DType::f64 ? kTermReading : 0;
      expect_sharp("mean_logprob" + in, [&](double share) {
        const double off = share * (kMeanLogprobBound + reading);
        return check_named(checks_of(row, kLogsumexp, kMeanLogprob + off), "mean_logprob").passed();
      });
    }
  }
}

TEST(TermChecks, LeaveOutTokensThatAreNotGiven) {
  const OneRow row(DType::f32, {kLn3, 0}, 1);
  Outputs without;
  without.terms = false;
  for (const char* term : {"logsumexp", "mean_logprob"}) {
    EXPECT_FALSE(has_check(checks_of(row, 0, 0, without), term));
  }
  EXPECT_FALSE(check_named(checks_of(row, std::nan(""), kMeanLogprob), "logsumexp").passed());
}

TEST(TermChecks, ColumnsAreCutAndListed) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::span<float> all(values);
  TokenOutputs outputs;
  outputs.logprobs = all.subspan(0, 3);
  outputs.terms[RowTerm::logsumexp] = all.subspan(1, 3);
  outputs.terms[RowTerm::mean_logprob] = all.subspan(2, 3);
  const TokenOutputs part = outputs.part(1, 2);
  EXPECT_EQ(part.terms[RowTerm::logsumexp][0], 3);
  EXPECT_EQ(part.terms[RowTerm::mean_logprob][1], 5);
  EXPECT_TRUE(part.terms[RowTerm::entropy].empty());
  EXPECT_EQ(part.columns()[2].data(), part.terms[RowTerm::logsumexp].data());
  EXPECT_EQ(part.columns()[3].data(), part.terms[RowTerm::mean_logprob].data());
}

struct TermCase {
  Problem problem;
  Truth truth;
  std::vector<RowPlace> places;
  int serial_adds = 0;
};

TermCase make_term_case(const std::string& text, const TermWeights& weights = kAllTerms) {
  TermCase c{make_problem(parse_case(text)), {}, {}, 0};
  c.serial_adds = static_cast<int>(c.problem.spec.vocab);
  c.truth =
      make_truth(c.problem, compute_rows(c.problem, 1), TermObjective(weights), c.serial_adds);
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < c.problem.tokens(); ++t) rows.push_back(t);
  c.places = place_rows(c.problem, c.problem.cu_seqlens, rows);
  return c;
}

/// Returns the gradient [T, V] of plain float32 loops.
std::vector<float> loops_of(const TermCase& c, TermFault fault = TermFault::none) {
  std::vector<float> gradient;
  std::vector<float> x(static_cast<std::size_t>(c.problem.spec.vocab));
  for (std::int64_t t = 0; t < c.problem.tokens(); ++t) {
    std::vector<float> dz(x.size(), 0.0f);
    if (c.truth.rows[t].valid) {
      c.problem.logits->read(t, 0, std::span<float>(x));
      dz = emulate_terms(x, c.truth.rows[t].target, c.truth.objective.gradient(t),
                         TermOrder::factors_first, fault)
               .gradient;
    }
    gradient.insert(gradient.end(), dz.begin(), dz.end());
  }
  return gradient;
}

/// Returns the findings about the columns of one of `tp` shards, in T.
template <typename T = float>
GradientFindings findings_of(const TermCase& c, const std::vector<float>& gradient, int tp = 1,
                             int rank = 0) {
  const VocabShard shard = vocab_shard(c.problem.spec.vocab, tp, rank);
  std::vector<T> part;
  for (std::int64_t t = 0; t < c.problem.tokens(); ++t) {
    for (std::int64_t v = shard.begin; v < shard.begin + shard.width; ++v) {
      part.push_back(T(v < shard.end ? gradient[t * c.problem.spec.vocab + v] : 0.0f));
    }
  }
  return check_gradient(c.problem, c.truth, c.places, shard, part.data(), c.serial_adds, rank);
}

bool has_right_bias(const GradientFindings& found) {
  return check_bias(found.bias, "bias").passed();
}

TEST(TermChecks, PassGradientsOfPlainLoops) {
  for (const char* values :
       {"normal", "peaked", "masked_vocab", "far_offset", "overflow", "ties"}) {
    const TermCase c = make_term_case(std::string("lens=9+12 vocab=201 values=") + values);
    const std::vector<float> got = loops_of(c);
    const GradientFindings found = findings_of(c, got);
    EXPECT_TRUE(found.elements.passed()) << values << " " << found.elements.ratio();
    EXPECT_TRUE(has_right_bias(found)) << values;
    EXPECT_FALSE(found.any_misplaced()) << values;
    EXPECT_EQ(found.elements.compared(), found.trained_rows * 201);
    for (std::size_t k = 0; k < found.row_sums.size(); ++k) {
      EXPECT_LE(std::abs(found.row_sums[k]), found.row_sum_bounds[k]) << values;
    }
    const TermCase rounded =
        make_term_case(std::string("lens=9+12 vocab=201 dtype=bf16 values=") + values);
    const GradientFindings in_bf16 = findings_of<bf16>(rounded, loops_of(rounded));
    EXPECT_TRUE(in_bf16.elements.passed()) << values << " " << in_bf16.elements.ratio();
    EXPECT_TRUE(has_right_bias(in_bf16)) << values;
  }
}

TEST(TermChecks, RejectEveryFaultOfGradients) {
  for (const char* values : {"normal", "masked_vocab"}) {
    const TermCase c = make_term_case(std::string("lens=9+12 mask=all vocab=200 values=") + values);
    for (const TermFault fault :
         {TermFault::entropy_sign, TermFault::entropy_of_half, TermFault::no_entropy_mean,
          TermFault::no_share, TermFault::no_logsumexp, TermFault::logsumexp_of_target}) {
      EXPECT_FALSE(findings_of(c, loops_of(c, fault)).elements.passed())
          << values << static_cast<int>(fault);
    }
    const bool masked = values != std::string("normal");
    for (const TermFault fault : {TermFault::all_columns_finite, TermFault::mean_of_finite,
                                  TermFault::share_of_minus_inf}) {
      EXPECT_EQ(findings_of(c, loops_of(c, fault)).elements.passed(), !masked);
    }
  }
}

TEST(TermChecks, SumsOfRowsOverShardsAreThoseOfTheLogsumexp) {
  const TermCase c = make_term_case("lens=9+12 mask=all vocab=101");
  const auto sums = [&](TermFault fault) {
    const std::vector<float> got = loops_of(c, fault);
    std::vector<std::pair<double, double>> rows(c.places.size());
    for (int rank = 0; rank < 4; ++rank) {
      const GradientFindings found = findings_of(c, got, 4, rank);
      for (std::size_t k = 0; k < rows.size(); ++k) {
        rows[k].first += found.row_sums[k];
        rows[k].second += found.row_sum_bounds[k];
      }
    }
    return rows;
  };
  for (const auto& [sum, bound] : sums(TermFault::none)) EXPECT_LE(std::abs(sum), bound);
  // The row adds up to l - m, or to 0.
  for (const TermFault fault : {TermFault::no_share, TermFault::no_logsumexp}) {
    const auto rows = sums(fault);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if (!c.truth.rows[k].valid) continue;
      const double factor = TermObjective::factor_of(static_cast<std::int64_t>(k));
      const double off =
          fault == TermFault::no_share ? kAllTerms.mean_logprob : kAllTerms.logsumexp;
      EXPECT_NEAR(rows[k].first, -factor * off, 1e-5);
      EXPECT_GT(std::abs(rows[k].first), 10 * rows[k].second);
    }
  }
}

TEST(TermChecks, TheIntervalOfALogsumexpGradientIsPartOfARowsSum) {
  TermCase c = make_term_case("lens=4 mask=all vocab=30");
  const double before = findings_of(c, loops_of(c)).row_sum_bounds[1];
  Enclosure& l = c.truth.objective.grad_terms[RowTerm::logsumexp][1];
  l = Enclosure::around(l.value, 0.01);
  EXPECT_NEAR(findings_of(c, loops_of(c)).row_sum_bounds[1] - before, 0.01, 1e-5);
  l = Enclosure(l.value);
  Enclosure& h = c.truth.objective.grad_terms[RowTerm::entropy][1];
  h = Enclosure::around(h.value, 0.01);
  EXPECT_NEAR(findings_of(c, loops_of(c)).row_sum_bounds[1], before, 1e-5);
}

TEST(TermChecks, AScaleErrorIsABias) {
  for (const TermWeights& weights : {kAllTerms, TermWeights{0, 1, 0, 0}, TermWeights{0, 0, 0, 1}}) {
    const TermCase c = make_term_case("lens=9+12 mask=all vocab=200", weights);
    std::vector<float> got = loops_of(c);
    const GradientFindings right = findings_of(c, got);
    EXPECT_TRUE(has_right_bias(right));
    EXPECT_NEAR(*right.bias.scale(), 1, 1e-6);
    for (float& x : got) x *= 1.001f;
    EXPECT_FALSE(has_right_bias(findings_of(c, got)));
  }
}

TEST(TermChecks, NoColumnIsLeftOut) {
  const TermCase c = make_term_case("lens=2 mask=all vocab=700");
  const std::vector<float> right = loops_of(c);
  const float poison = std::bit_cast<float>(std::uint32_t{kPoisonPattern} * 0x10001u);
  for (const std::size_t v : {0, 1, 511, 512, 513, 698, 699}) {
    std::vector<float> wrong = right;
    wrong[v] += 0.01f;
    const GradientFindings found = findings_of(c, wrong);
    EXPECT_EQ(found.elements.beyond_bound(), 1) << v;
    EXPECT_EQ(found.elements.place().vocab_id, static_cast<std::int64_t>(v));
    EXPECT_GT(std::abs(found.row_sums[0]), found.row_sum_bounds[0]) << v;
    wrong[v] = std::nanf("");
    EXPECT_FALSE(findings_of(c, wrong).elements.passed()) << v;
    wrong[v] = poison;
    EXPECT_EQ(findings_of(c, wrong).not_written, 1) << v;
  }
}

TEST(TermChecks, ARowWithoutABoundIsNoNan) {
  TermCase c = make_term_case("lens=9+12 vocab=200 mask=all values=masked_vocab");
  c.truth.objective.grad_terms[RowTerm::entropy][3].high = std::numeric_limits<double>::infinity();
  const GradientFindings found = findings_of(c, loops_of(c));
  EXPECT_TRUE(found.elements.passed());
  EXPECT_TRUE(has_right_bias(found));
  EXPECT_TRUE(std::isinf(found.row_sum_bounds[3]));
  EXPECT_TRUE(std::isfinite(found.row_sum_bounds[2]));
  // -inf logits of the row have no gradient all the same.
  std::vector<double> logits(200);
  c.problem.logits->read(3, 0, std::span<double>(logits));
  const auto masked = std::find(logits.begin(), logits.end(), -HUGE_VAL) - logits.begin();
  std::vector<float> wrong = loops_of(c);
  wrong[static_cast<std::size_t>(3 * 200 + masked)] = 1e-9f;
  EXPECT_FALSE(findings_of(c, wrong).elements.passed());
}

/// Row 3 may be on either side of a switch: 0 or all of g, with the same row terms.
TEST(TermChecks, HoldARowAtASwitchToOneSide) {
  // Along the gradient of the log-probability, that of the terms is larger than the two sides.
  TermCase c = make_term_case("lens=9+12 vocab=24 mask=all", {-0.01, 0.125, 0.5, -0.5});
  Enclosure& grad = c.truth.objective.grad_logprob[3];
  const double g = grad.value;
  c.truth.objective.grad_sides[3] = {Enclosure::around(0, 1e-7 * std::abs(g)),
                                     Enclosure::around(g, 1e-7 * std::abs(g))};
  grad = Enclosure::around(0.5 * g, 0.6 * std::abs(g));
  const auto with = [&](double share) {
    TermCase other = c;
    other.truth.objective.grad_logprob[3].value = share * g;
    return findings_of(c, loops_of(other)).elements.passed();
  };
  EXPECT_TRUE(with(0));
  EXPECT_TRUE(with(1));
  EXPECT_FALSE(with(0.5));
  EXPECT_FALSE(with(0.99));
}

TEST(TermChecks, HoldABundleToTheSameBounds) {
  const TermCase c = make_term_case("lens=5+4 mask=all vocab=30");
  const BundleResults expected = expected_results(c.problem, c.truth);
  const auto passed = [&](TermFault fault) {
    BundleResults got;
    const std::vector<float> gradient = loops_of(c, fault);
    got.grad_logits.assign(gradient.begin(), gradient.end());
    const std::vector<Check> checks =
        check_expected(c.problem, c.truth, c.serial_adds, expected, got, {});
    EXPECT_EQ(checks.size(), 1u);
    return checks.back().passed();
  };
  EXPECT_TRUE(passed(TermFault::none));
  EXPECT_FALSE(passed(TermFault::entropy_sign));
  EXPECT_FALSE(passed(TermFault::no_share));
}

}  // namespace
}  // namespace lossgrid
