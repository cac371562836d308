// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/shard_checks.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "check_named.h"
#include "harness/core/stage_clock.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/loss/registry.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/truth/bounds.h"
#include "statistics_outputs.h"

namespace lossgrid {
namespace {

struct Case {
  Problem problem;
  Truth truth;
  std::vector<RowPlace> places;
  VocabShard shard;
};

Case make_case(const std::string& text) {
  Case c{make_problem(parse_case(text)), {}, {}, {}};
  c.truth = make_truth(c.problem, compute_rows(c.problem, 1), *make_objective({}, false), 12);
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < c.problem.tokens(); ++t) rows.push_back(t);
  c.places = place_rows(c.problem, c.problem.cu_seqlens, rows);
  c.shard = vocab_shard(c.problem.spec.vocab, 1, 0);
  return c;
}

/// Returns the true gradient times `factor`, rounded to T.
template <typename T>
std::vector<T> gradient_of(const Case& c, double factor) {
  const auto vocab = static_cast<std::size_t>(c.problem.spec.vocab);
  std::vector<T> out;
  std::vector<double> row(vocab);
  for (std::int64_t t = 0; t < c.problem.tokens(); ++t) {
    std::fill(row.begin(), row.end(), 0.0);
    if (c.truth.rows[t].valid) {
      c.problem.logits->read(t, 0, std::span<double>(row));
      truth_probabilities(c.truth.rows[t], row, row);
      truth_gradient(c.truth.rows[t], c.truth.objective.grad_logprob[t].value, row, 0, row);
    }
    for (const double x : row) out.push_back(T(static_cast<float>(factor * x)));
  }
  return out;
}

template <typename T>
GradientFindings findings_of(const Case& c, const std::vector<T>& gradient) {
  return check_gradient(c.problem, c.truth, c.places, c.shard, gradient.data(), 12, 0);
}

Check bias_of(const GradientFindings& found) {
  return check_bias(found.bias, "grad_logits_bias");
}

TEST(Gradient, TheRoundedTruthPasses) {
  for (const char* values : {"normal", "peaked", "masked_vocab", "overflow"}) {
    const Case c = make_case(std::string("lens=9+12 vocab=200 dtype=bf16 values=") + values);
    const GradientFindings found = findings_of(c, gradient_of<bf16>(c, 1.0));
    EXPECT_TRUE(found.elements.passed()) << values << " " << found.elements.ratio();
    EXPECT_TRUE(bias_of(found).passed()) << values;
    EXPECT_EQ(found.not_written + found.nonzero_masked + found.nonzero_padding, 0);
  }
}

/// Logits that take a millisecond to read.
class SlowLogits final : public LogitsSource {
 public:
  explicit SlowLogits(std::shared_ptr<const LogitsSource> logits) : logits_(std::move(logits)) {}
  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    logits_->read(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    logits_->read(token, begin, out);
  }

 private:
  std::shared_ptr<const LogitsSource> logits_;
};

TEST(Gradient, LogitsThatAreReadAgainCountAsGenerated) {
  Case c = make_case("lens=9 mask=all vocab=5");
  c.problem.logits = std::make_shared<const SlowLogits>(c.problem.logits);
  take_stage_times();
  {
    const StageScope compare(Stage::compare);
    findings_of(c, gradient_of<float>(make_case("lens=9 mask=all vocab=5"), 1.0));
  }
  EXPECT_GE(take_stage_times()[Stage::generate], 1'000'000);  // each thread reads a row or more
}

TEST(Gradient, FourPerMilleTooLargeIsABias) {
  // In bf16 a single element may be that far off; all of them together may not.
  const Case c = make_case("lens=9+12 vocab=200 dtype=bf16 mask=all");
  EXPECT_FALSE(bias_of(findings_of(c, gradient_of<bf16>(c, 1.004))).passed());
  const Case exact = make_case("lens=9+12 vocab=200 mask=all");
  EXPECT_FALSE(bias_of(findings_of(exact, gradient_of<float>(exact, 1.0001))).passed());
}

TEST(Gradient, CountsWhatMustNotBeThere) {
  const Case c = make_case("lens=6 mask=011011 vocab=5");
  std::vector<float> gradient = gradient_of<float>(c, 1.0);
  gradient[2 * 5 + 3] = 1e-30f;  // row 2 predicts token 3, which is masked
  const GradientFindings found = findings_of(c, gradient);
  EXPECT_EQ(found.nonzero_masked, 1);
  EXPECT_EQ(found.first_misplaced.token, 2);
  EXPECT_EQ(found.first_misplaced.vocab_id, 3);
}

TEST(Gradient, PaddingColumnsMustBeZero) {
  Case c = make_case("lens=3 mask=all vocab=5");
  c.shard.width = 6;
  std::vector<float> padded;
  const std::vector<float> right = gradient_of<float>(c, 1.0);
  for (int row = 0; row < 3; ++row) {
    padded.insert(padded.end(), right.begin() + 5 * row, right.begin() + 5 * row + 5);
    padded.push_back(row == 1 ? 0.5f : 0.0f);
  }
  const GradientFindings found = findings_of(c, padded);
  EXPECT_TRUE(found.elements.passed());
  EXPECT_EQ(found.nonzero_padding, 1);
}

TEST(Tokens, ExtremaOfMadeLogitsMayBeAsFarOffAsTheLogits) {
  const Case c = make_case("lens=4 mask=all vocab=9 hidden=6");
  std::vector<float> columns[4];
  for (auto& column : columns) column.assign(4, 0.0f);
  const auto passed = [&](double share) {
    for (std::size_t t = 0; t < 3; ++t) {
      const RowTruth& row = c.truth.rows[t];
      EXPECT_GT(row.range_error, 0);
      columns[0][t] = static_cast<float>(row.logprob);
      columns[1][t] = static_cast<float>(row.entropy());
      columns[2][t] = static_cast<float>(row.smallest - share * row.range_error);
      columns[3][t] = static_cast<float>(row.max + share * row.range_error);
    }
    const std::vector<Check> checks =
        check_tokens(c.problem, c.truth, c.places, statistics_outputs(columns), {}, 12, 0);
    std::vector<bool> passed;
    for (const char* name : {"logprobs", "entropy", "vocab_min", "vocab_max"}) {
      passed.push_back(check_named(checks, name).passed());
    }
    return passed;
  };
  EXPECT_EQ(passed(0.8), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(passed(1.5), (std::vector<bool>{true, true, false, false}));
}

bool passes(const Case& c, const ObjectiveResult& result) {
  bool all = true;
  for (const Check& check : check_result(c.truth.objective, result, {}, 0))
    all = all && check.passed();
  return all;
}

/// Returns the one check of a result that fails.
Check failed_check(const Case& c, const ObjectiveResult& result) {
  std::vector<Check> failed = check_result(c.truth.objective, result, {}, 0);
  std::erase_if(failed, [](const Check& check) { return check.passed(); });
  EXPECT_EQ(failed.size(), 1u);
  return failed.empty() ? Check("none") : failed[0];
}

TEST(Result, MetricsMustBeThoseOfTheTruth) {
  const Case c = make_case("lens=6+4 vocab=9 mask=all");
  ObjectiveResult right{c.truth.objective.loss.value, {}};
  for (const auto& [name, metric] : c.truth.objective.metrics) {
    right.metrics[name] = {metric.reduction, metric.amount.value, metric.count};
  }
  EXPECT_TRUE(passes(c, right));

  ObjectiveResult wrong = right;
  wrong.loss *= 1 + 1e-5;  // the epsilon in a denominator
  EXPECT_FALSE(passes(c, wrong));
  wrong = right;
  wrong.metrics["num_unmasked_tokens"].amount = 7;  // 8 are valid; counts are exact
  EXPECT_FALSE(passes(c, wrong));
  wrong = right;
  wrong.metrics.erase("loss");
  EXPECT_FALSE(passes(c, wrong));
  EXPECT_EQ(failed_check(c, wrong).name(), "metric.loss");
  EXPECT_EQ(failed_check(c, wrong).want(), right.metrics["loss"].amount);
  wrong = right;
  wrong.metrics["loss"].count = 0;
  EXPECT_FALSE(passes(c, wrong));
  wrong = right;
  wrong.metrics["loss"].reduction = Reduction::mean;
  EXPECT_FALSE(passes(c, wrong));
  EXPECT_EQ(failed_check(c, wrong).bound(), 0);
  wrong = right;
  wrong.metrics["perplexity"] = {Reduction::mean, 1.0, 1};
  EXPECT_FALSE(passes(c, wrong));
}

TEST(Gradient, ARowWithoutABoundIsNoNan) {
  Case c = make_case("lens=9+12 vocab=200 mask=all values=masked_vocab");
  const std::vector<float> right = gradient_of<float>(c, 1.0);
  Enclosure& grad = c.truth.objective.grad_logprob[3];
  grad.high = std::numeric_limits<double>::infinity();
  const GradientFindings found = findings_of(c, right);
  EXPECT_TRUE(found.elements.passed());
  EXPECT_TRUE(bias_of(found).passed());
  EXPECT_FALSE(std::isnan(bias_of(found).bound()));
  EXPECT_TRUE(std::isinf(found.row_sum_bounds[3]));
  EXPECT_TRUE(std::isfinite(found.row_sum_bounds[2]));
  std::vector<float> wrong = right;
  wrong[2 * 200 + 5] += 1;  // the other rows are judged as before
  EXPECT_FALSE(findings_of(c, wrong).elements.passed());
  wrong = right;
  wrong[3 * 200 + 5] = std::nanf("");
  EXPECT_FALSE(findings_of(c, wrong).elements.passed());
}

TEST(Gradient, VanishingOnesAreNoBias) {
  for (const double size : {1e-3, 1e-39}) {
    Case c = make_case("lens=30+31 vocab=20 mask=all");
    for (Enclosure& grad : c.truth.objective.grad_logprob) grad = Enclosure(grad.value * size);
    EXPECT_EQ(bias_of(findings_of(c, gradient_of<float>(c, 0))).passed(), size < 1e-38) << size;
  }
}

TEST(Gradient, NoRowIsLeftOutOnAnyNumberOfThreads) {
  const int before = rank_threads();
  const Case c = make_case("lens=5+4 mask=all vocab=6");
  const std::vector<float> right = gradient_of<float>(c, 1.0);
  for (const int threads : {1, 2, 3, 4}) {
    set_rank_threads(threads);  // as many as there are cores
    EXPECT_TRUE(findings_of(c, right).elements.passed());
    EXPECT_EQ(findings_of(c, right).elements.compared(), 7 * 6);
    for (std::size_t row = 0; row < 9; ++row) {
      std::vector<float> wrong = right;
      wrong[row * 6 + 5] += 0.01f;
      const GradientFindings found = findings_of(c, wrong);
      const bool is_trained = c.truth.rows[row].valid;
      EXPECT_EQ(found.elements.beyond_bound(), is_trained ? 1 : 0) << threads << " " << row;
      EXPECT_EQ(found.nonzero_masked, is_trained ? 0 : 1) << threads << " " << row;
      EXPECT_EQ(found.row_sums.size(), 9u);
    }
  }
  set_rank_threads(before);
}

TEST(Gradient, ElementsJustBeyondTheirBoundAreCountedBehindAWorseOne) {
  const Case c = make_case("lens=9 mask=all vocab=200 dtype=f64");
  std::vector<double> gradient = gradient_of<double>(c, 1.0);
  for (const auto& [t, bounds] : {std::pair(0, 3.0), std::pair(1, 1.005)}) {
    std::vector<double> logits(200), p(200), want(200);
    c.problem.logits->read(t, 0, std::span<double>(logits));
    truth_probabilities(c.truth.rows[t], logits, p);
    const Enclosure& grad = c.truth.objective.grad_logprob[t];
    truth_gradient(c.truth.rows[t], grad.value, p, 0, want);
    const GradientBound bound(c.truth.rows[t], grad, DType::f64, 12);
    const int v = c.truth.rows[t].target == 5 ? 6 : 5;
    gradient[static_cast<std::size_t>(200 * t + v)] =
        want[v] + bounds * (bound.rounding(want[v], logits[v], p[v], false) +
                            bound.computation(logits[v], p[v], false) +
                            bound.objective(logits[v], p[v], false));
  }
  EXPECT_EQ(findings_of(c, gradient).elements.beyond_bound(), 2);
}

TEST(Gradient, NoColumnIsLeftOut) {
  // Longer than two blocks of compare_columns, with a target in each.
  for (const std::int32_t target : {0, 511, 512, 700, 1099}) {
    Case c = make_case("lens=2 mask=all vocab=1100");
    c.problem.input_ids[1] = target;
    c.truth = make_truth(c.problem, compute_rows(c.problem, 1), *make_objective({}, false), 12);
    const std::vector<float> right = gradient_of<float>(c, 1.0);
    EXPECT_EQ(findings_of(c, right).elements.compared(), 1100);
    for (const std::size_t v : {0, 1, 510, 511, 512, 513, 1023, 1024, 1025, 1098, 1099}) {
      std::vector<float> wrong = right;
      wrong[v] += 0.01f;
      const GradientFindings found = findings_of(c, wrong);
      EXPECT_EQ(found.elements.beyond_bound(), 1) << v;
      EXPECT_EQ(found.elements.place().vocab_id, static_cast<std::int64_t>(v));
      EXPECT_GT(std::abs(found.row_sums[0]), found.row_sum_bounds[0]) << v;
      EXPECT_NEAR(found.bias.out_truth - findings_of(c, right).bias.out_truth,
                  0.01 * static_cast<double>(right[v]), 1e-8)
          << v;
    }
  }
}

TEST(Gradient, PoisonIsNotWrittenWhereverItStands) {
  // Element 3 of a trained row, of a masked one, of a last token, and a padding column.
  Case c = make_case("lens=4 mask=0111 vocab=5");
  c.truth.rows[1].valid = false;
  c.shard.width = 6;
  const float poison = std::bit_cast<float>(std::uint32_t{kPoisonPattern} * 0x10001u);
  for (const auto& [row, column] :
       {std::pair(0, 3), std::pair(1, 3), std::pair(3, 3), std::pair(0, 5), std::pair(1, 5)}) {
    std::vector<float> gradient;
    const std::vector<float> right = gradient_of<float>(c, 1.0);
    for (int k = 0; k < 4; ++k) {
      gradient.insert(gradient.end(), right.begin() + 5 * k, right.begin() + 5 * k + 5);
      gradient.push_back(0);
    }
    EXPECT_EQ(findings_of(c, gradient).not_written, 0);
    gradient[static_cast<std::size_t>(6 * row + column)] = poison;
    const GradientFindings found = findings_of(c, gradient);
    EXPECT_EQ(found.not_written, 1) << row << " " << column;
    EXPECT_EQ(found.nonzero_masked + found.nonzero_padding, 0) << row << " " << column;
    EXPECT_EQ(found.first_misplaced.token, row);
    EXPECT_EQ(found.first_misplaced.vocab_id, column);
  }
}

/// Row 3 may be on either side of a clip bound: 0, half or all of g.
TEST(Gradient, IsThatOfOneSideForARowAtASwitch) {
  Case c = make_case("lens=9+12 vocab=24 mask=all");
  Enclosure& grad = c.truth.objective.grad_logprob[3];
  const double g = grad.value;
  const auto narrow = [&](double x) { return Enclosure::around(x, 1e-7 * std::abs(g)); };
  c.truth.objective.grad_sides[3] = {narrow(0), narrow(0.5 * g), narrow(g)};
  grad = Enclosure::around(0.5 * g, 0.6 * std::abs(g));
  const auto scaled = [&](double share) {
    const double value = grad.value;
    grad.value = share * g;
    std::vector<float> gradient = gradient_of<float>(c, 1.0);
    grad.value = value;
    return gradient;
  };
  for (const double share : {0.0, 0.5, 1.0}) {
    const GradientFindings found = findings_of(c, scaled(share));
    EXPECT_TRUE(found.elements.passed()) << share;
    EXPECT_TRUE(bias_of(found).passed()) << share;
  }
  for (const double share : {0.25, 0.75, 0.999, 2.0, -1.0}) {
    EXPECT_FALSE(findings_of(c, scaled(share)).elements.passed()) << share;
  }
  c.truth.objective.grad_sides.clear();
  EXPECT_TRUE(findings_of(c, scaled(0.75)).elements.passed());  // by the interval alone
}

/// Behind a soft-cap most columns are flat, and roundings of their slopes are as large as these.
/// The side is that of the columns that differ by more than their bounds.
TEST(Gradient, IsThatOfOneSideForARowAtASwitchBehindASoftcap) {
  Case c = make_case("lens=9+12 vocab=24 mask=all logit_softcap=0.5 scale=3");
  Enclosure& grad = c.truth.objective.grad_logprob[3];
  const double g = grad.value;
  const auto narrow = [&](double x) { return Enclosure::around(x, 1e-7 * std::abs(g)); };
  c.truth.objective.grad_sides[3] = {narrow(0), narrow(g)};
  grad = Enclosure::around(0.5 * g, 0.6 * std::abs(g));
  const TrueRowTransform transform = c.problem.transform_of_row(3);
  std::vector<double> z(24);
  c.problem.logits->read(3, 0, std::span<double>(z));
  const double error = transform_error(c.problem.transform());
  // `share` of the gradient, slopes off by most of what their errors may be.
  const auto gradient = [&](double share, double of_slope_error) {
    std::vector<float> got = gradient_of<float>(c, 1.0);
    for (std::size_t row = 0; row < got.size() / 24; ++row) {
      for (std::size_t v = 0; v < 24; ++v) {
        const auto t = static_cast<std::int64_t>(row);
        std::vector<double> of_row(24);
        c.problem.logits->read(t, 0, std::span<double>(of_row));
        const double off = of_slope_error * transform.slope_error(of_row[v], error * 0.5);
        const double slope = transform.slope(of_row[v]) + (v % 2 == 0 ? off : -off);
        const double of_g = row == 3 ? share * g / grad.value : 1.0;
        got[24 * row + v] *= static_cast<float>(slope * of_g);
      }
    }
    return got;
  };
  for (const double share : {0.0, 1.0}) {
    EXPECT_TRUE(findings_of(c, gradient(share, 0.9)).elements.passed()) << share;
    EXPECT_FALSE(findings_of(c, gradient(share, 20)).elements.passed()) << share;
  }
  for (const double share : {0.25, 0.999, 2.0, -1.0}) {
    EXPECT_FALSE(findings_of(c, gradient(share, 0)).elements.passed()) << share;
  }
}

}  // namespace
}  // namespace lossgrid
