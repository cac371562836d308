// SPDX-License-Identifier: Apache-2.0
// Internal to problems: the numbers behind the value regimes of case_spec.h, the same whether
// logits are drawn themselves or come out of hidden states and a weight.
#pragma once

#include <cstdint>

#include "harness/problem/case_spec.h"

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

}  // namespace lossgrid
