// SPDX-License-Identifier: Apache-2.0
// Divergences of one row from a teacher (harness/problem/batch/row_terms.h) in plain float64, from
// the formulas: D, and D's gradient by the student's logits z,
//   forward  p - q          reverse  p (ln p - ln q - R)          jsd  (1 - b) p (ln(p / m) - R)
//   mixed    b of the first and 1 - b of the second
// with R = sum p (ln p - ln q), or sum p ln(p / m), and of a clamped one, with q' = exp(a) of a =
// ln q clamped and m = sum q' over the sent ids whose ln p is above the clamp, m p - q' or m p. A
// divergence with a tail follows by the chain rule. A factor of 0 makes a summand 0.
#pragma once

#include <span>

#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// Returns D of student and teacher logits, [V] each.
double plain_divergence(const Divergence& divergence, std::span<const double> student,
                        std::span<const double> teacher);

/// Adds g dD / dz to out [V]. `out` must not overlap the other arguments.
void add_plain_divergence_gradient(const Divergence& divergence, std::span<const double> student,
                                   std::span<const double> teacher, double g,
                                   std::span<double> out);

}  // namespace lossgrid
