// SPDX-License-Identifier: Apache-2.0
// Checks of rows whose loss is a divergence from a teacher, the rows that are refused, and the
// gradients of hidden states and weight.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/linear_truth.h"
#include "harness/verify/truth/usable_truth.h"
#include "one_row.h"

namespace lossgrid {
namespace {

constexpr double kChecksInf = std::numeric_limits<double>::infinity();
constexpr double kChecksNaN = std::numeric_limits<double>::quiet_NaN();
const double kLog2 = std::log(2.0);

/// One sequence of two tokens: the loss is the divergence of row 0.
struct OneDistilledRow {
  Problem problem;
  std::vector<RowTruth> rows;
  Truth truth;
  VocabShard shard;
  std::vector<RowPlace> places;

  OneDistilledRow(const std::string& options, std::vector<double> student,
                  std::vector<double> teacher, bool is_trained = true)
      : problem(make_problem(
            parse_case(fmt::format("objective=distill lens=2 mask={} poison=none vocab={} {}",
                                   is_trained ? "01" : "10", student.size(), options)))),
        shard(vocab_shard(static_cast<std::int64_t>(student.size()), 1, 0)) {
    problem.logits = std::make_shared<const SameLogits>(std::move(student));
    set_teacher(problem, std::make_shared<const SameLogits>(std::move(teacher)), DType::f32);
    problem.input_ids[1] = 0;
    const auto objective = make_objective(problem.spec.objective, false);
    rows = compute_rows(problem, 1, divergence_of(objective->needs(), problem.spec));
    truth = make_truth(problem, rows, *objective, OneRow::kSerialAdds);
    places = place_rows(problem, problem.cu_seqlens, std::vector<std::int64_t>{0, 1});
  }

  /// Returns the message with which the rows are refused, or "".
  std::string refusal() const {
    try {
      require_trainable(problem, rows);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "";
  }

  Check divergence_check(double value) const {
    std::vector<float> logprobs(2, static_cast<float>(truth.rows[0].logprob));
    std::vector<float> divergence(2, static_cast<float>(value));
    TokenOutputs got{logprobs};
    got.terms[RowTerm::divergence] = divergence;
    for (Check& check : check_tokens(problem, truth, places, got, {}, OneRow::kSerialAdds, 0)) {
      if (check.name() == "divergence") return check;
    }
    ADD_FAILURE() << "no check of a divergence";
    return Check();
  }

  /// `out`: the gradient of row 0; that of row 1 is 0.
  GradientFindings gradient_findings(std::vector<float> out) const {
    out.resize(2 * static_cast<std::size_t>(shard.width));
    return check_gradient(problem, truth, places, shard, out.data(), OneRow::kSerialAdds, 0);
  }
};

/// p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2): D = ln 2 / 4, dz = (1/4, 0, -1/4).
OneDistilledRow plain_row() {
  return OneDistilledRow("", {kLog2, 0, 0}, {0, 0, kLog2});
}

TEST(DivergenceChecks, AreSharpForADivergence) {
  const OneDistilledRow row = plain_row();
  const double bound =
      term_bound(row.truth.rows[0], RowTerm::divergence, OneRow::kSerialAdds, DType::f32);
  EXPECT_GT(bound, 50 * kRoundoff32);
  EXPECT_LT(bound, 200 * kRoundoff32);
  expect_sharp("divergence", [&](double share) {
    return row.divergence_check(kLog2 / 4 + share * bound).passed();
  });
  EXPECT_FALSE(row.divergence_check(kChecksNaN).passed());
}

TEST(DivergenceChecks, AreSharpForAGradient) {
  const OneDistilledRow row = plain_row();
  EXPECT_EQ(row.truth.objective.gradient(0).terms[RowTerm::divergence].value, 1);
  // p D + q D' + 4 u (p + q), and a rounding; m is ln 2 and s is 2 of both.
  const double at_top = 4 * (8 + kLog2) + 12;
  const double below = 4 * (8 + 2 * kLog2) + 12;
  const double bound = kRoundoff32 * (at_top / 2 + below / 4 + 4 * 0.75 + 1.01 / 4);
  expect_sharp("an element", [&](double share) {
    return row.gradient_findings({static_cast<float>(0.25 + share * bound), 0, -0.25f})
        .elements.passed();
  });
  const GradientFindings right = row.gradient_findings({0.25f, 0, -0.25f});
  EXPECT_TRUE(right.elements.passed());
  EXPECT_EQ(right.row_sums[0], 0);
  EXPECT_EQ(right.elements.compared(), 3);
}

TEST(DivergenceChecks, AllowARoundedLogSumExpThatIsDeclared) {
  // p = exp(x - float32(m + ln s)), as far as the rounding of a number of that size goes.
  for (const char* options : {"", "objective.kl_type=reverse", "objective.kl_type=jsd"}) {
    const OneDistilledRow row(options, {1000 + kLog2, 1000, 1000}, {0, 0, kLog2});
    const auto objective = make_objective(row.problem.spec.objective, false);
    const Truth declared =
        make_truth(row.problem, row.rows, *objective, OneRow::kSerialAdds, {.log_sum_exp = true});
    const double r = 4 * kRoundoff32 * (1000 + 2 * kLog2);
    const DivergenceTruth& without = *row.truth.rows[0].divergence;
    const DivergenceTruth& with = *declared.rows[0].divergence;
    EXPECT_EQ(with.value, without.value);
    EXPECT_NEAR(with.p.shared_error, r, 1e-12 * r);
    EXPECT_GT(with.value_error.fixed, without.value_error.fixed + 0.05 * r);
    EXPECT_LT(with.value_error.fixed, without.value_error.fixed + 2 * r);
    EXPECT_EQ(without.p.shared_error, 0);
  }
}

TEST(DivergenceChecks, HaveARowSumForAnInfiniteForwardDivergence) {
  // q is 1/2 of id 2, which the student masks: dz = (1/2 - 1/4, 1/2 - 1/4, 0).
  const OneDistilledRow row("", {0, 0, -kChecksInf}, {0, 0, kLog2});
  EXPECT_EQ(row.refusal(), "");
  EXPECT_TRUE(row.divergence_check(kChecksInf).passed());
  EXPECT_FALSE(row.divergence_check(1e30).passed());
  EXPECT_EQ(row.truth.objective.loss.value, kChecksInf);
  const auto off = [&](std::vector<float> gradient) {
    const GradientFindings found = row.gradient_findings(std::move(gradient));
    EXPECT_LT(found.row_sum_bounds[0], 1e-4);
    return std::abs(found.row_sums[0]) / found.row_sum_bounds[0];
  };
  EXPECT_LE(off({0.25f, 0.25f, 0}), 1);
  EXPECT_TRUE(row.gradient_findings({0.25f, 0.25f, 0}).elements.passed());
  EXPECT_GT(off({0.25f, 0.25f, -0.5f}), 100);
  EXPECT_FALSE(row.gradient_findings({0.25f, 0.25f, -0.5f}).elements.passed());
}

TEST(DivergenceChecks, ARowThatIsTrainedOnNeedsADivergenceWithAGradient) {
  const std::vector<double> fine{0, 1, 2};
  const auto expect_refused = [](const OneDistilledRow& row, const std::string& what,
                                 const std::string& why) {
    const std::string message = row.refusal();
    EXPECT_THAT(message, testing::HasSubstr(": " + what +
                                            " of sequence 0, token 0, whose next token "
                                            "is trained on: " +
                                            why));
    EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  };
  for (const char* kind : {"forward", "reverse", "mixed", "jsd"}) {
    const std::string options = std::string("objective.kl_type=") + kind;
    EXPECT_EQ(OneDistilledRow(options, fine, fine).refusal(), "");
    expect_refused({options, fine, {0, kChecksNaN, 0}}, "teacher_logits",
                   "nan at vocab id 1, must be finite or -inf");
    expect_refused({options, fine, {0, 0, kChecksInf}}, "teacher_logits",
                   "inf at vocab id 2, must be finite or -inf");
    expect_refused({options, fine, {-kChecksInf, -kChecksInf, -kChecksInf}}, "teacher_logits",
                   "all are -inf, one at least must be finite");
    expect_refused({options, {0, kChecksNaN, 0}, fine}, "logits",
                   "nan at vocab id 1, must be finite or -inf");
    const std::string topk = options + " teacher_topk=2";
    expect_refused({topk, fine, {0, kChecksNaN, -kChecksInf}}, "teacher_topk_logits",
                   "nan at vocab id 1, must be finite or -inf");
    expect_refused({topk, {0, -kChecksInf, -kChecksInf}, {-kChecksInf, 0, 0}}, "logits",
                   "all are -inf where the teacher has a probability, one at least must be finite");
    // A row that is not trained on may hold anything, and has nothing to compare.
    const OneDistilledRow not_trained(options, fine, {0, kChecksNaN, 0}, false);
    EXPECT_EQ(not_trained.refusal(), "");
    EXPECT_EQ(not_trained.divergence_check(kChecksNaN).compared(), 0);
  }
  for (const char* options : {"objective.kl_type=reverse", "objective.kl_type=mixed"}) {
    const OneDistilledRow infinite(options, fine, {0, -kChecksInf, 0});
    expect_refused(infinite, "logits",
                   "1 at vocab id 1, must be -inf where the teacher's is: the divergence is inf");
  }
  EXPECT_EQ(OneDistilledRow("objective.kl_type=jsd", fine, {0, -kChecksInf, 0}).refusal(), "");
}

/// Returns the loss and the truth of a problem from hidden states, with its teacher.
struct LinearDistill {
  Problem problem;
  Truth truth;

  explicit LinearDistill(Problem of) : problem(std::move(of)) {
    const auto objective = make_objective(problem.spec.objective, false);
    truth = make_truth(problem,
                       compute_rows(problem, 1, divergence_of(objective->needs(), problem.spec)),
                       *objective, 7);
  }

  /// Returns d loss / d `element` by central differences of the float64 loss.
  double difference(std::vector<float> Projection::*factor, std::size_t at) const {
    double losses[2];
    double places[2];
    for (const int side : {0, 1}) {
      auto changed = std::make_shared<Projection>(*problem.projection);
      float& element = ((*changed).*factor)[at];
      element += side == 0 ? -0x1p-13f : 0x1p-13f;
      places[side] = element;
      Problem moved = problem;
      moved.projection = changed;
      moved.logits = make_projected_logits(changed);
      moved.untransformed = nullptr;
      apply_transform(moved);
      losses[side] = LinearDistill(moved).truth.objective.loss.value;
    }
    return (losses[1] - losses[0]) / (places[1] - places[0]);
  }
};

TEST(LinearDivergences, AreThoseOfDifferences) {
  for (const char* options :
       {"objective.kl_type=forward", "objective.kl_type=reverse temperature=0.7",
        "objective.kl_type=jsd objective.jsd_beta=0.3 logit_softcap=2",
        "objective.kl_type=reverse teacher_topk=3", "objective.kl_type=jsd teacher_topk=2",
        "objective.kl_type=mixed objective.mixed_kl_weight=0.3 temperature=0.7",
        "objective.kl_type=mixed teacher_topk=3",
        "objective.kl_type=forward objective.zero_outside_topk=true teacher_topk=2",
        "objective.kl_type=reverse objective.zero_outside_topk=true teacher_topk=2",
        "objective.kl_type=mixed objective.zero_outside_topk=true teacher_topk=2"}) {
    SCOPED_TRACE(options);
    Problem problem = make_problem(parse_case(
        fmt::format("objective=distill lens=4+1+3 mask=1101+1+011 vocab=6 hidden=3 {}", options)));
    draw_teacher(problem);
    const LinearDistill c(std::move(problem));
    const LinearTruth& linear = *c.truth.linear;
    double largest = 0;
    for (std::size_t k = 0; k < linear.hidden.rows.size(); ++k) {
      for (std::size_t h = 0; h < 3; ++h) {
        const double want = linear.hidden.want[3 * k + h];
        const std::size_t at = 3 * static_cast<std::size_t>(linear.hidden.rows[k]) + h;
        EXPECT_NEAR(c.difference(&Projection::hidden, at), want, 1e-7);
        largest = std::max(largest, std::abs(want));
        EXPECT_GT(linear.hidden.radius[3 * k + h], 0);
        EXPECT_LT(linear.hidden.radius[3 * k + h], 1e-4);
      }
    }
    for (std::size_t k = 0; k < linear.weight.want.size(); ++k) {
      EXPECT_NEAR(c.difference(&Projection::weight, k), linear.weight.want[k], 1e-7);
    }
    EXPECT_GT(largest, 0.01);
  }
}

}  // namespace
}  // namespace lossgrid
