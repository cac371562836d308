// SPDX-License-Identifier: Apache-2.0
// Numbers behind the value regimes of case_spec.h, the same for logits that are drawn and for
// logits that come out of hidden states and a weight. Internal to problems.
#pragma once

#include <cstdint>

#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Basis of a regime: shift + factor * N(0, 1), which some regimes then change at single ids.
struct Affine {
  double shift = 0;
  double factor = 1;
};

Affine affine_of(const CaseSpec& spec);

/// Returns the logit of a target with probability 0.9, 0.99, 0.999, 1 - 1e-5 or 1 - 1e-7, by token
/// in turn, among V - 1 others from N(0, 1), whose exponentials have mean e^0.5.
double peak_logit(std::int64_t token, std::int64_t vocab);

/// Returns the shift of the edges of shards in edge_mass, by which they hold most of the mass.
double edge_bonus(std::int64_t vocab);

/// Shift of the odd columns of vanishing. |N(0, 1)| < 5.8 here, so that their logits are 90 to 103
/// below the maximum of a row of more than a few ids; float32 has subnormal numbers in
/// e^-103.97 .. e^-87.34.
inline constexpr double kVanishingShift = -91;

/// Masked logits of finite_mask, and targets of buried_target.
inline constexpr double kFiniteMask = -1e30;

/// Returns the masked logits of lowest_mask, the lowest number of the dtype.
double lowest_number(DType dtype);

/// True for rows whose target buried_target and impossible_target change.
bool has_low_target(std::int64_t token);

/// Returns the shift of column `id` in late_max.
double late_max_shift(std::int64_t id, std::int64_t vocab);

}  // namespace lossgrid
