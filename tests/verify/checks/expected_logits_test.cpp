// SPDX-License-Identifier: Apache-2.0
// Results of a problem that starts from logits against a bundle's values: bounds are those of the
// truth, around the values of the bundle and not around the truth.
#include <functional>

#include "harness/verify/checks/expected.h"
#include "one_row.h"

namespace lossgrid {
namespace {

/// The row of sharp_bounds_test.cpp, and a bundle's values for it far from the truth.
struct OtherValues {
  OtherValues() : row(DType::f32, {kLn3, 0}, 1), values(expected_results(row.problem, row.truth)) {
    *values.loss += 1;
    values.logprobs[1] -= 1;
    values.entropy[1] += 1;
    values.metrics["loss"] += 1;
    values.grad_logits[0] += 1;
    values.grad_logits[1] += 1;
  }

  /// Returns the names of the checks that fail for these values with one change.
  std::string failures(const std::function<void(BundleResults&)>& change) const {
    BundleResults got = values;
    change(got);
    std::string names;
    for (const Check& check :
         check_expected(row.problem, row.truth, OneRow::kSerialAdds, values, got, {})) {
      EXPECT_GT(check.compared(), 0) << check.name();
      if (!check.passed()) names += check.name() + " ";
    }
    return names;
  }

  OneRow row;
  BundleResults values;
};

TEST(ExpectedOfLogits, ValuesOfTheBundlePassAndNoOthers) {
  const OtherValues c;
  EXPECT_EQ(c.failures([](BundleResults&) {}), "");
  const BundleResults right = expected_results(c.row.problem, c.row.truth);
  EXPECT_EQ(c.failures([&](BundleResults& got) { got.loss = right.loss; }), "expected.loss ");
  EXPECT_EQ(c.failures([&](BundleResults& got) { got.logprobs = right.logprobs; }),
            "expected.logprobs ");
  EXPECT_EQ(c.failures([&](BundleResults& got) { got.entropy = right.entropy; }),
            "expected.entropy ");
  EXPECT_EQ(c.failures([&](BundleResults& got) { got.metrics = right.metrics; }),
            "expected.metric.loss ");
  EXPECT_EQ(c.failures([&](BundleResults& got) { got.grad_logits = right.grad_logits; }),
            "expected.grad_logits ");
  EXPECT_EQ(c.failures([](BundleResults& got) { got.metrics.erase("num_valid_samples"); }),
            "expected.metric.num_valid_samples ");
}

TEST(ExpectedOfLogits, NamesWhatWasGotAndWanted) {
  const OtherValues c;
  BundleResults got = c.values;
  *got.loss += 1;
  got.logprobs[1] -= 1;
  got.entropy[1] += 1;
  got.metrics["loss"] += 1;
  got.grad_logits[0] += 1;
  int failed = 0;
  for (const Check& check :
       check_expected(c.row.problem, c.row.truth, OneRow::kSerialAdds, c.values, got, {})) {
    const double change = check.name() == "expected.logprobs" ? -1 : 1;
    if (check.passed()) continue;
    ++failed;
    EXPECT_NEAR(check.got() - check.want(), change, 1e-6) << check.name();
    EXPECT_EQ(check.place().rank, 0) << check.name();
  }
  EXPECT_EQ(failed, 5);
}

TEST(ExpectedOfLogits, BoundsAreThoseOfTheTruth) {
  // Literals of sharp_bounds_test.cpp; roundings of the loss and of d logits go with the values of
  // the bundle, 1 + ln 4 and 3/4 + 1000 or -3/4 + 1.
  OtherValues c;
  c.values.grad_logits[0] += 999;
  const auto sharp = [&](const std::string& check, double bound, auto&& element) {
    expect_sharp(check, [&](double share) {
      const std::string failed =
          c.failures([&](BundleResults& got) { element(got) += share * bound; });
      EXPECT_TRUE(failed.empty() || failed == check + " ") << failed;
      return failed.empty();
    });
  };
  const double logprob = 56.18896 * kRoundoff32;
  sharp("expected.logprobs", logprob,
        [](BundleResults& got) -> double& { return got.logprobs[1]; });
  sharp("expected.entropy", 53.61925 * kRoundoff32,
        [](BundleResults& got) -> double& { return got.entropy[1]; });
  const double loss = logprob + (1.386294 + 2.386294) * kRoundoff32;
  sharp("expected.loss", loss, [](BundleResults& got) -> double& { return *got.loss; });
  sharp("expected.metric.loss", loss,
        [](BundleResults& got) -> double& { return got.metrics["loss"]; });
  sharp("expected.grad_logits", (36.86305 + 1.01 * 1000.75) * kRoundoff32,
        [](BundleResults& got) -> double& { return got.grad_logits[0]; });
  sharp("expected.grad_logits", (15.38630 + 1.01 * 0.25) * kRoundoff32,
        [](BundleResults& got) -> double& { return got.grad_logits[1]; });
}

TEST(ExpectedOfLogits, RowsThatAreNotTrainedOnHaveNoSlack) {
  const OtherValues c;
  // Row 1 predicts nothing: the smallest number is too much.
  EXPECT_EQ(c.failures([](BundleResults& got) { got.grad_logits[3] = 1e-300; }),
            "expected.grad_logits ");
}

}  // namespace
}  // namespace lossgrid
