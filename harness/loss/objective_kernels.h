// SPDX-License-Identifier: Apache-2.0
// The steps by token of an objective as kernels, for tables that a device reads (objective.h; how
// an objective gets them: terms_kernels.h). A call returns when its kernels are launched on the
// device's stream; it throws internal with what CUDA says.
#pragma once

#include "harness/device/device.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

class ObjectiveKernels {
 public:
  virtual ~ObjectiveKernels() = default;

  /// Objective::sequence_sums.
  virtual void sequence_sums(Device& device, const ObjectiveTokens& tokens,
                             SequenceTable<double> sums) const = 0;

  /// Objective::token_terms, but that it writes grad_logprobs: 0 where a token is not valid.
  /// `partial_totals`: memory of the device, partial_total_blocks(tokens) times the totals.
  virtual void token_terms(Device& device, const ObjectiveTokens& tokens,
                           SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                           std::span<float> grad_logprobs, double* partial_totals) const = 0;
};

/// How many blocks share `tokens` tokens. It depends on nothing else, and neither does the order in
/// which they are added up.
std::int64_t partial_total_blocks(std::int64_t tokens);

}  // namespace lossgrid
