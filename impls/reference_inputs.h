// SPDX-License-Identifier: Apache-2.0
// ReferenceInputs: source of the reference's logits and sink of their gradients, row by row. Logits
// gathered from all ranks, or hidden states and weight gathered from all ranks and multiplied in
// float64. Plain code; every rank holds everything.
#pragma once

#include <memory>
#include <span>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

class ReferenceInputs {
 public:
  virtual ~ReferenceInputs() = default;
  /// Gathers the inputs. Collective.
  virtual void gather(const LossInputs& inputs) = 0;
  /// Reads all V logits of the row that a CP rank holds at `slot` among its own.
  virtual void read_row(std::int64_t cp_rank, std::int64_t slot, std::span<double> row) = 0;
  /// Starts gradients: no row has one yet.
  virtual void begin_gradient(const LossGradients& gradients) = 0;
  /// Adds d loss / d logits [V] of the own row at `slot`.
  virtual void add_gradient(std::int64_t slot, std::span<const double> row) = 0;
  virtual void end_gradient() = 0;
};

std::unique_ptr<ReferenceInputs> make_reference_inputs(const LossProblem& problem,
                                                       RankContext context);

/// Adds what the inputs need to the cost of the plan.
void add_reference_inputs(const LossProblem& problem, Cost& cost);

}  // namespace lossgrid
