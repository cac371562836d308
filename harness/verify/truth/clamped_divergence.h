// SPDX-License-Identifier: Apache-2.0
// The clamped divergence of a row from its teacher, whose logarithms are at least a least one: its
// sums and the elements of its gradient, by the formulas in divergence_truth.h.
#pragma once

#include "harness/verify/truth/divergence_truth.h"

namespace lossgrid {

/// Adds D and R of a row to its truth, which has p and q.
void add_clamped_sums(const DistilledLogits& logits, DivergenceTruth& truth);

/// Returns the element of a row that has a gradient, as divergence_column() does.
DivergenceColumn clamped_column(const DivergenceTruth& truth, const Enclosure& gradient,
                                int serial_adds, double student, double teacher,
                                double student_error, double teacher_error);

}  // namespace lossgrid
