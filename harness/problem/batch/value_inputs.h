// SPDX-License-Identifier: Apache-2.0
// Returns and old values of a value head, drawn around its values: values inside of the clip range
// around the old ones, on both sides of it and on its ends; returns on both sides of the value and
// of the clipped one, between them, and in the middle, where the losses of both are equal.
#pragma once

#include "harness/problem/batch/objective_inputs.h"

namespace lossgrid {

struct DrawnValues {
  double returns = 0;
  double old_value = 0;
};

/// Draws both for the token t, whose value is `value`. With spec.drift far, every third return is
/// beyond the bend of a Huber loss; edge: at an end of the range, at the middle or at the bend, the
/// nearest float32, one further or 2^-10 further; equal: both are the value.
DrawnValues drawn_values(const CaseSpec& spec, const ObjectiveNeeds& needs, std::int64_t t,
                         double value);

}  // namespace lossgrid
