// SPDX-License-Identifier: Apache-2.0
// The truth of a divergence from a teacher whose logits are a product: its bounds allow for any
// order of additions in float32, and for no more.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/objective.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/objective_inputs.h"
#include "harness/verify/truth/truth.h"
#include "harness/verify/truth/usable_truth.h"

namespace lossgrid {
namespace {

struct TaughtRows {
  Problem problem;
  Divergence divergence;
  std::vector<RowTruth> rows;

  explicit TaughtRows(const std::string& text)
      : problem(make_problem(parse_case("objective=distill lens=9+14 vocab=13 " + text))) {
    draw_teacher(problem);
    const auto objective = make_objective(problem.spec.objective, false);
    divergence = divergence_of(objective->needs(), problem.spec);
    rows = compute_rows(problem, 1, divergence);
  }

  /// Returns D of row t with the teacher's logits that `make(product)` makes of a row.
  template <typename Make>
  double value_with(std::int64_t t, Make&& make) const {
    const auto vocab = static_cast<std::size_t>(problem.spec.vocab);
    std::vector<double> student(vocab);
    problem.logits->read(t, 0, std::span<double>(student));
    std::vector<double> teacher(vocab);
    for (std::size_t v = 0; v < vocab; ++v) {
      const Projection& p = *problem.teacher_projection;
      teacher[v] = make(p.hidden_row(t), p.weight_row(static_cast<std::int64_t>(v)), p.size) /
                   problem.temperature_of_row(t);
    }
    const std::vector<double> exact(vocab);
    return divergence_truth(divergence, {student, teacher, exact, exact}, false).value;
  }
};

float forwards(const float* x, const float* w, std::int64_t size) {
  float sum = 0;
  for (std::int64_t k = 0; k < size; ++k) sum += x[k] * w[k];
  return sum;
}

float backwards(const float* x, const float* w, std::int64_t size) {
  float sum = 0;
  for (std::int64_t k = size; k-- > 0;) sum += x[k] * w[k];
  return sum;
}

float in_bf16(const float* x, const float* w, std::int64_t size) {
  return static_cast<float>(bf16(forwards(x, w, size)));
}

const char* const kKinds[] = {"forward", "reverse", "mixed", "jsd"};

TEST(TeacherTruth, AllowsForProductsInFloat32) {
  for (const char* kind : kKinds) {
    for (const char* values : {"normal", "offset", "overflow", "peaked"}) {
      const TaughtRows taught("teacher_hidden=200 temperature=0.7 objective.kl_type=" +
                              std::string(kind) + " values=" + values);
      for (std::int64_t t = 0; t < taught.problem.tokens(); ++t) {
        if (!taught.rows[static_cast<std::size_t>(t)].divergence) continue;
        const DivergenceTruth& truth = *taught.rows[static_cast<std::size_t>(t)].divergence;
        for (const auto product : {forwards, backwards}) {
          EXPECT_LE(std::abs(taught.value_with(t, product) - truth.value), truth.value_error.at(0))
              << kind << ' ' << values << ' ' << t;
        }
      }
    }
  }
}

TEST(TeacherTruth, AllowsForNoProductsInBf16) {
  for (const char* kind : kKinds) {
    const TaughtRows taught("teacher_hidden=24 objective.kl_type=" + std::string(kind));
    int beyond = 0;
    for (std::int64_t t = 0; t < taught.problem.tokens(); ++t) {
      if (!taught.rows[static_cast<std::size_t>(t)].divergence) continue;
      const DivergenceTruth& truth = *taught.rows[static_cast<std::size_t>(t)].divergence;
      const double off = std::abs(taught.value_with(t, in_bf16) - truth.value);
      beyond += off > 4 * truth.value_error.at(32) ? 1 : 0;
    }
    EXPECT_GT(beyond, 5) << kind;
  }
}

/// Given logits are no product, and nothing has to be allowed for.
TEST(TeacherTruth, IsSharperForGivenLogits) {
  const TaughtRows made("teacher_hidden=24");
  TaughtRows given("teacher_hidden=24");
  class Given final : public LogitsSource {
   public:
    explicit Given(std::shared_ptr<const LogitsSource> product) : product_(std::move(product)) {}
    void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
      product_->read(token, begin, out);
    }
    void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
      product_->read(token, begin, out);
    }

   private:
    std::shared_ptr<const LogitsSource> product_;
  };
  set_teacher(given.problem, std::make_shared<const Given>(made.problem.given_teacher), DType::f32);
  given.rows = compute_rows(given.problem, 1, given.divergence);
  for (std::size_t t = 0; t < given.rows.size(); ++t) {
    if (!given.rows[t].divergence) continue;
    EXPECT_EQ(given.rows[t].divergence->value, made.rows[t].divergence->value);
    EXPECT_LT(given.rows[t].divergence->value_error.fixed,
              made.rows[t].divergence->value_error.fixed);
  }
}

TEST(TeacherTruth, NamesTheProductThatIsNoNumber) {
  TaughtRows taught("teacher_hidden=3 mask=all");
  Projection broken = *taught.problem.teacher_projection;
  broken.hidden[3 * 10 + 1] = std::numeric_limits<float>::infinity();
  set_teacher(taught.problem, std::make_shared<const Projection>(std::move(broken)));
  taught.rows = compute_rows(taught.problem, 1, taught.divergence);
  try {
    require_trainable(taught.problem, taught.rows);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("teacher_hidden x teacher_weight of sequence 1, token 1"));
  }
}

}  // namespace
}  // namespace lossgrid
