// SPDX-License-Identifier: Apache-2.0
// Teacher of a bundle: its logits, of all ids or of k ids per row, or its hidden states and its
// weight.
#pragma once

#include "harness/problem/batch/problem.h"
#include "harness/problem/bundle/bundle_tensors.h"

namespace lossgrid {

/// Sets the teacher of a problem whose logits have been read, if the file has one. Throws bad_input
/// for a teacher that breaks a rule, or for several teachers.
void read_bundle_teacher(const BundleTensors& tensors, Problem& problem);

}  // namespace lossgrid
