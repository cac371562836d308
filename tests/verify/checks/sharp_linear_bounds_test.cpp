// SPDX-License-Identifier: Apache-2.0
// Bounds of the gradients of hidden states and weight from below: an error of 0.9 bounds passes the
// real check and one of 1.5 fails. The bounds are literals, worked out on paper from the formulas
// of linear_bounds.h and linear_checks.h, with u = 2^-24, for a truth of one element that is
// written down: 16 products, want 1/2, spread 1/4, magnitude 2, radius 1e-6.
#include <cmath>

#include "harness/verify/checks/linear_checks.h"
#include "one_row.h"

namespace lossgrid {
namespace {

LinearRows one_truth(double want) {
  LinearRows rows;
  rows.terms = 16;
  rows.rows = {0};
  rows.want = {want};
  rows.spread = {0.25};
  rows.magnitude = {2};
  rows.radius = {1e-6};
  return rows;
}

/// One row that is trained on, one hidden column, one id.
struct OneElement {
  OneElement(DType dtype, const LinearRows& rows) {
    problem.spec.dtype = dtype;
    problem.spec.vocab = 1;
    problem.spec.hidden = 1;
    problem.lengths = {1};
    problem.cu_seqlens = {0, 1};
    truth.rows.resize(1);
    truth.rows[0].valid = true;
    truth.objective.grad_logprob = {1.0};
    LinearTruth linear;
    linear.size = linear.factors = 1;
    linear.hidden = linear.weight = rows;
    truth.linear = std::make_shared<const LinearTruth>(linear);
  }

  LinearFindings hidden(double got, DType grad_logits) const {
    const RowPlace place{.sequence = 0, .offset = 0, .row = 0};
    LinearFindings findings;
    dispatch_floating(problem.spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      T value;
      if constexpr (std::is_same_v<T, bf16>) {
        value = bf16(static_cast<float>(got));
      } else {
        value = static_cast<T>(got);
      }
      findings = check_grad_hidden(problem, truth, {&place, 1}, &value, grad_logits, 0);
    });
    return findings;
  }

  LinearFindings weight(double got, double before, const DeclaredRoundings& declared) const {
    const double sum = got + before;
    return check_grad_weight(problem, truth, vocab_shard(1, 1, 0), {&sum, 1}, {&before, 1},
                             declared, 0);
  }

  Problem problem;
  Truth truth;
};

bool bias_passes(const LinearFindings& found) {
  return check_bias(found.bias, "bias").passed();
}

TEST(SharpLinearBounds, FitHiddenStatesInFloat32) {
  const OneElement one(DType::f32, one_truth(0.5));
  const auto found = [&](double got) { return one.hidden(got, DType::f32); };
  // Independent 1/2 + 1/4; products 4 * 2 + 3 sqrt(16) (1/4 + 1/2) = 17.
  expect_sharp("grad_hidden", [&](double share) {
    return found(0.5 + share * ((3 * 0.75 + 17) * kRoundoff32 + 1e-6)).elements.passed();
  });
  expect_sharp("grad_hidden_l2", [&](double share) {
    return found(0.5 + share * ((0.75 + 17) * kRoundoff32 + 1e-6)).l2.passed();
  });
  // (3 (1/4 + 17) u want + 1e-6 want) / want^2; the step of float32 adds less than a half u.
  expect_sharp("grad_hidden_bias", [&](double share) {
    return bias_passes(found(0.5 + share * (3 * 17.25 * kRoundoff32 + 1e-6)));
  });
}

TEST(SharpLinearBounds, FitHiddenStatesInBf16) {
  // 1/2 is got, and the truth is as many bounds beside it.
  for (const DType of_dz : {DType::f32, DType::bf16}) {
    const double u_dz = of_dz == DType::bf16 ? kRoundoff16 : kRoundoff32;
    const auto found = [&](double error) {
      LinearRows rows = one_truth(0.5 + error);
      rows.rounded = rows.want;
      return OneElement(DType::bf16, rows).hidden(0.5, of_dz);
    };
    const double common = 17 * kRoundoff32 + 1e-6;
    const double independent = 0.5 * kRoundoff16 + 0.25 * u_dz;
    const std::string of = " of dz in " + std::string(name(of_dz));
    expect_sharp("grad_hidden" + of, [&](double share) {
      return found(share * (3 * independent + common)).elements.passed();
    });
    expect_sharp("grad_hidden_l2" + of,
                 [&](double share) { return found(share * (independent + common)).l2.passed(); });
  }
  // Known changes by the roundings of dz count in full.
  const auto moved = [&](double error) {
    LinearRows rows = one_truth(0.5 + error);
    rows.rounded = {rows.want[0] + 0.125};
    return OneElement(DType::bf16, rows).hidden(0.5, DType::bf16);
  };
  expect_sharp("grad_hidden beside rounded dz", [&](double share) {
    return moved(share * (0.125 + 3 * 0.75 * kRoundoff16)).elements.passed();
  });
  // Bias: 3 (u_dz / 4) want + 0.02 want, over want^2; bf16 numbers are 1/256 apart above 1/2.
  LinearRows rows = one_truth(0.5);
  rows.rounded = rows.want;
  rows.radius = {0.02};
  const OneElement one(DType::bf16, rows);
  EXPECT_TRUE(bias_passes(one.hidden(0.5 + 5 * kRoundoff16, DType::bf16)));
  EXPECT_FALSE(bias_passes(one.hidden(0.5 + 9 * kRoundoff16, DType::bf16)));
}

TEST(SharpLinearBounds, FitHiddenStatesWithRoundedLogits) {
  LinearRows rows = one_truth(0.5);
  rows.logit_rounding = {0.01};
  const OneElement one(DType::f32, rows);
  expect_sharp("grad_hidden", [&](double share) {
    return one.hidden(0.5 + share * 0.03, DType::f32).elements.passed();
  });
}

TEST(SharpLinearBounds, FitAWeightThatIsAddedTo) {
  // 9 additions to a buffer that held -2: products 4 (2 + 2) + 3 (5 * 3/4 + 3 * 2) = 45.25.
  const OneElement one(DType::bf16, one_truth(0.5));  // the dtype of the case counts for nothing
  DeclaredRoundings declared;
  declared.weight_adds = 9;
  const auto found = [&](double got) { return one.weight(got, -2, declared); };
  expect_sharp("grad_weight", [&](double share) {
    return found(0.5 + share * ((3 * 0.75 + 45.25) * kRoundoff32 + 1e-6)).elements.passed();
  });
  expect_sharp("grad_weight_l2", [&](double share) {
    return found(0.5 + share * ((0.75 + 45.25) * kRoundoff32 + 1e-6)).l2.passed();
  });
  expect_sharp("grad_weight_bias", [&](double share) {
    return bias_passes(found(0.5 + share * (3 * 45.5 * kRoundoff32 + 1e-6)));
  });
  // Parts count only where they are declared to be rounded, and dz in the dtype that is declared.
  declared.weight_parts = 4;
  expect_sharp("grad_weight of exact parts", [&](double share) {
    return found(0.5 + share * ((3 * 0.75 + 45.25) * kRoundoff32 + 1e-6)).elements.passed();
  });
}

TEST(SharpLinearBounds, FitAWeightInBf16) {
  DeclaredRoundings declared;
  declared.grad_logits = DType::bf16;
  declared.weight_sum = declared.weight_part = DType::bf16;
  declared.weight_parts = 4;
  LinearRows rows = one_truth(0.5);
  rows.rounded = rows.want;
  const OneElement one(DType::bf16, rows);
  // Independent: 1/2 of the result, 1/4 of dz, 2 * 3/4 of four parts.
  expect_sharp("grad_weight", [&](double share) {
    return one.weight(0.5 + share * 3 * 2.25 * kRoundoff16, 0, declared).elements.passed();
  });
  expect_sharp("grad_weight_l2", [&](double share) {
    return one.weight(0.5 + share * 2.25 * kRoundoff16, 0, declared).l2.passed();
  });
}

TEST(SharpLinearBounds, FitAWeightThatIsRoundedOnce) {
  // An element: 1/2 u16 of the result, and what was there before, 3/4 u_dz of dz and the float32
  // lines, (1 + u16) times. L2 of one row: the root of ((1/2 u16)^2 + (1/4 u_dz)^2) / 3, times the
  // root of 1 + 3 sqrt(2), at most the sum of both.
  for (const DType of_dz : {DType::f32, DType::bf16}) {
    DeclaredRoundings declared;
    declared.grad_logits = of_dz;
    declared.weight_sum = declared.weight_part = DType::bf16;
    LinearRows rows = one_truth(0.5);
    rows.rounded = rows.want;
    const OneElement one(DType::bf16, rows);
    const double u_dz = of_dz == DType::bf16 ? kRoundoff16 : kRoundoff32;
    const double common = 20 * kRoundoff32 + 1e-6;  // 4 * 2 + 3 sqrt(16 + 1) (1/4 + 1/2) = 17.3
    const std::string of = " of dz in " + std::string(name(of_dz));
    expect_sharp("grad_weight" + of, [&](double share) {
      const double bound = 0.5 * kRoundoff16 + 0.75 * u_dz + common;
      return one.weight(0.5 + share * bound, 0, declared).elements.passed();
    });
    expect_sharp("grad_weight_l2" + of, [&](double share) {
      const double mean = std::hypot(0.5 * kRoundoff16, 0.25 * u_dz) * 0.57735 * 2.28970;
      const double bound = std::min(mean, 0.5 * kRoundoff16 + 0.25 * u_dz) + common;
      return one.weight(0.5 + share * bound, 0, declared).l2.passed();
    });
  }
}

TEST(SharpLinearBounds, FitManyRowsThatAreRoundedOnce) {
  // 64 equal rows: the root of 1/3 (1 + 3 sqrt(2 / 64)) = 0.714 of a sum that is rounded.
  LinearRows rows;
  rows.terms = 16;
  for (std::int64_t id = 0; id < 64; ++id) rows.rows.push_back(id);
  rows.want.assign(64, 0.5);
  rows.spread = rows.magnitude = rows.radius = std::vector<double>(64, 0);
  rows.rounded = rows.want;
  OneElement one(DType::bf16, rows);
  DeclaredRoundings declared;
  declared.weight_sum = declared.weight_part = DType::bf16;
  expect_sharp("grad_weight_l2", [&](double share) {
    const std::vector<double> before(64, 0.0);
    const std::vector<double> got(64, 0.5 + share * 0.714 * 0.5 * kRoundoff16);
    return check_grad_weight(one.problem, one.truth, vocab_shard(64, 1, 0), got, before, declared,
                             0)
        .l2.passed();
  });
}

}  // namespace
}  // namespace lossgrid
