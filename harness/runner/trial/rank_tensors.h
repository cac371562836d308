// SPDX-License-Identifier: Apache-2.0
// The tensors that a pack starts from on one rank, and their gradients: logits, or hidden states
// and the weight of the LM head. All that the runner does with them depends on the kind: how they
// are made, what must not change, which gradients are compared with which truth.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/device/device.h"
#include "harness/runner/trial/pack_trial.h"

namespace lossgrid {

/// What a rank knows of the pack that it runs; all outlive the tensors.
struct RankPack {
  const Problem& problem;
  const LossProblem& loss_problem;
  const PackRank& rank;
  Device& device;
  std::span<const RowPlace> rows;  // [T_c] of the CP rank
};

/// What the gradients of an implementation are compared with.
struct GradientTruth {
  const Truth& truth;
  int serial_adds;
  DType grad_logits;        // in which the gradient of logits enters the products of an LM head
  bool grad_hidden = true;  // Outputs::grad_hidden
};

class RankTensors {
 public:
  virtual ~RankTensors() = default;

  virtual LossInputs inputs() const = 0;
  virtual std::uint64_t input_bits() const = 0;
  /// Adds `amount` to all logits, or returns why that cannot be.
  virtual std::string shift(double amount) = 0;
  /// Keeps a copy of what implementations may overwrite, for restore_inputs().
  virtual void keep_inputs() = 0;
  /// Makes the inputs what they were at first: from the copy, or else from where they come from.
  virtual void restore_inputs() = 0;
  /// From now on gradients take the place of the inputs that they belong to
  /// (ImplementationTraits::in_place), or, as at first, have buffers of their own. No difference
  /// where there are no logits.
  virtual void set_in_place(bool in_place) = 0;

  /// Gradients as an implementation finds them: poisoned, but that of the weight, which holds
  /// PackRank::weight_gradient.
  virtual void allocate_gradients() = 0;
  /// The same in the buffers that are there; PackRank::weight_gradient is not changed.
  virtual void restore_gradients() = 0;
  /// The same once more, for a second run of the pack. What the first run made of the weight's
  /// gradient goes to PackRank::weight_gradient: call it once.
  virtual void renew_gradients() = 0;
  virtual LossGradients gradients() = 0;
  /// By fingerprint: "grad_logits", or "grad_hidden" and "grad_weight". Of rows that take part in
  /// the loss and of valid ids; sums over ranks, packs and rows depend on no order.
  virtual std::map<std::string, std::uint64_t> gradient_bits(const Truth& truth) const = 0;
  /// Compares the gradients with the truth, all but that of the weight, which is known only after
  /// the last pack; and adds invariants.
  virtual void check(const GradientTruth& truth, PackFindings& findings) const = 0;
  /// The invariants that check() adds, in its order.
  virtual std::vector<std::string> gradient_invariants() const = 0;
  /// The gradient of the rank's rows, [T_c, V_t] or [hidden_rows, H].
  virtual std::vector<double> row_gradient() const = 0;
};

std::unique_ptr<RankTensors> make_logits_tensors(const RankPack& pack);
std::unique_ptr<RankTensors> make_linear_tensors(const RankPack& pack);
/// The one of the two that the problem starts from.
std::unique_ptr<RankTensors> make_rank_tensors(const RankPack& pack);

/// Elements of a floating tensor in float64.
std::vector<double> as_doubles(const Buffer& buffer, DType dtype);

}  // namespace lossgrid
