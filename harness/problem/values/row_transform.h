// SPDX-License-Identifier: Apache-2.0
// `RowTransform`: the map of the logits x of a row to those that its softmax is of,
//   z = limit tanh(factor x / limit), or z = factor x without a limit (limit 0),
// with factor = s / T and limit = c / T for logit scale s, soft-cap c and temperature T (Gemma 2's
// soft-capping, "Gemma 2: Improving Open Language Models at a Practical Size", 2024). -inf has no
// probability before and after: it stays -inf. Plain data only: nvcc compiles this header.
#pragma once

namespace lossgrid {

struct RowTransform {
  float factor = 1;
  float limit = 0;

  friend constexpr bool operator==(const RowTransform&, const RowTransform&) = default;
};

}  // namespace lossgrid
