// SPDX-License-Identifier: Apache-2.0
// ObjectiveKernels: the steps by token of an objective (objective.h) as kernels of a device, made
// by terms_kernels.h. A call returns when its kernels are launched on the device's stream; it
// throws internal with the error of CUDA.
#pragma once

#include "harness/device/device.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

class ObjectiveKernels {
 public:
  virtual ~ObjectiveKernels() = default;

  /// Launches Objective::sequence_sums.
  virtual void sequence_sums(Device& device, const ObjectiveTokens& tokens,
                             SequenceTable<double> sums) const = 0;

  /// Launches Objective::token_terms, but writes `gradients` instead of adding, with 0 for invalid
  /// tokens. `partial_totals` is memory of the device for partial_total_blocks(tokens) copies of
  /// the totals.
  virtual void token_terms(Device& device, const ObjectiveTokens& tokens,
                           SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                           const TokenGradients& gradients, double* partial_totals) const = 0;
};

/// Returns the number of blocks that share `tokens` tokens. Both this number and the order of
/// additions depend on `tokens` only.
std::int64_t partial_total_blocks(std::int64_t tokens);

}  // namespace lossgrid
