// SPDX-License-Identifier: Apache-2.0
// Internal to problems: the numbers behind the value regimes of case_spec.h, the same whether
// logits are drawn themselves or come out of hidden states and a weight.
#pragma once

#include <cstdint>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Regimes are shift + factor * N(0, 1) first, then changed at single ids.
struct Affine {
  double shift = 0;
  double factor = 1;
};

Affine affine_of(const CaseSpec& spec);

/// The target's logit with probability 0.9, 0.99, 0.999, 1 - 1e-5 or 1 - 1e-7, by token in turn,
/// among V - 1 others from N(0, 1), whose exponentials have mean e^0.5.
double peak_logit(std::int64_t token, std::int64_t vocab);

/// What edges of shards have beyond N(0, 1) where they hold most of the mass.
double edge_bonus(std::int64_t vocab);

/// What odd columns of vanishing have beyond N(0, 1). |N| < 5.8, so that logits are 90 to 103 below
/// the maximum of a row of more than a few ids; float32 has subnormal numbers in
/// e^-103.97 .. e^-87.34.
inline constexpr double kVanishingShift = -91;

/// The masked logits of finite_mask, and the targets of buried_target.
inline constexpr double kFiniteMask = -1e30;

/// The masked logits of lowest_mask.
double lowest_number(DType dtype);

/// Rows whose target buried_target and impossible_target change.
bool has_low_target(std::int64_t token);

/// What column `id` of late_max has beyond N(0, 1).
double late_max_shift(std::int64_t id, std::int64_t vocab);

}  // namespace lossgrid
