// SPDX-License-Identifier: Apache-2.0
// `RankTensors`: the tensors that a pack starts from on one rank, and their gradients: logits, or
// hidden states, weight and bias of the lm_head. Everything the runner does with them depends on
// the kind: how they are made, what must not change, which gradients have which truth.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/skip_reason.h"
#include "harness/device/device.h"
#include "harness/runner/rank/pack_findings.h"
#include "harness/runner/rank/pack_rank.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

inline const RegisteredInvariant kEveryElementWritten{
    {.name = "every_element_written", .condition = "outputs are written completely", .place = 3}};
inline const RegisteredInvariant kMaskedRowsZero{
    {.name = "masked_rows_zero",
     .condition = "the gradient is exactly 0 in rows that are not trained on",
     .place = 6}};
inline const RegisteredInvariant kPaddedVocabZero{
    {.name = "padded_vocab_zero",
     .condition = "the gradient is exactly 0 in padding columns",
     .place = 7}};

/// A pack on the rank that runs it; all members outlive the tensors.
struct RankPack {
  const Problem& problem;
  const LossProblem& loss_problem;
  const PackRank& rank;
  Device& device;
  std::span<const RowPlace> rows;  // [T_c] of the CP rank
};

/// Truth of the gradients, and properties of the implementation that their bounds depend on.
struct GradientTruth {
  const Truth& truth;
  int serial_adds;
  DType grad_logits;        // in which the gradient of logits enters the products of an lm_head
  bool grad_hidden = true;  // Outputs::grad_hidden
};

class RankTensors {
 public:
  virtual ~RankTensors() = default;

  virtual LossInputs inputs() const = 0;
  virtual std::uint64_t input_bits() const = 0;
  /// Adds `amount` to all logits, or returns a reason and changes nothing.
  virtual std::optional<SkipReason> shift(double amount) = 0;
  /// Halves logits or hidden states: inputs of another microbatch, legal in every regime of values.
  virtual void halve() = 0;
  /// Keeps a copy of the inputs that implementations may overwrite, for restore_inputs().
  virtual void keep_inputs() = 0;
  /// Restores the original inputs: from the copy, or else from their source.
  virtual void restore_inputs() = 0;
  /// Makes gradients take the place of their inputs (ImplementationTraits::in_place) from now on,
  /// or, as at first, have buffers of their own. No effect where there are no logits.
  virtual void set_in_place(bool in_place) = 0;

  /// Allocates the gradients as an implementation finds them: poisoned, but those of weight and
  /// bias, which hold PackRank::weight_gradient.
  virtual void allocate_gradients() = 0;
  /// Puts the existing buffers into that state; PackRank::weight_gradient is not changed.
  virtual void restore_gradients() = 0;
  /// Puts the existing buffers into that state for a second run of the pack. The gradients of
  /// weight and bias of the first run go to PackRank::weight_gradient: call it once.
  virtual void renew_gradients() = 0;
  virtual LossGradients gradients() = 0;
  /// Returns fingerprints: "grad_logits", or "grad_hidden", "grad_weight" and with a bias
  /// "grad_bias", of rows that take part in the loss and of valid ids. Sums over ranks, packs and
  /// rows depend on no order.
  virtual std::map<std::string, std::uint64_t> gradient_bits(const Truth& truth) const = 0;
  /// Compares the gradients with the truth, all but that of the weight, which is known only after
  /// the last pack; adds invariants.
  virtual void check(const GradientTruth& truth, PackFindings& findings) const = 0;
  /// Returns the invariants that check() adds, in its order.
  virtual std::vector<InvariantEntry> gradient_invariants() const = 0;
  /// Returns the gradient of the rank's rows, [T_c, V_t] or [hidden_rows, H].
  virtual std::vector<double> row_gradient() const = 0;
  /// Returns the gradients of weight and bias behind renew_gradients() and a second run, and those
  /// that the first run left; both are empty where there are no weights.
  virtual std::pair<std::vector<double>, std::vector<double>> weight_gradients() const = 0;
};

std::unique_ptr<RankTensors> make_logits_tensors(const RankPack& pack);
std::unique_ptr<RankTensors> make_linear_tensors(const RankPack& pack);
/// Makes the one of the two that the problem starts from.
std::unique_ptr<RankTensors> make_rank_tensors(const RankPack& pack);

/// Logits of a teacher on one rank, or its hidden states and its weight: inputs that nothing may
/// change; empty where there are none.
class TeacherTensors {
 public:
  explicit TeacherTensors(const RankPack& pack);

  /// Sets those of `inputs`.
  void add_to(LossInputs& inputs) const;
  std::uint64_t bits() const;

 private:
  Buffer logits_;
  Buffer hidden_;
  Buffer weight_;
};

/// The sampling mask of one rank, in the same way.
class MaskTensor {
 public:
  explicit MaskTensor(const RankPack& pack);

  const std::uint64_t* data() const {
    return reinterpret_cast<const std::uint64_t*>(buffer_.data());
  }
  std::uint64_t bits() const;

 private:
  Buffer buffer_;
};

/// Returns the elements of a floating tensor in float64.
std::vector<double> as_doubles(const Buffer& buffer, DType dtype);
/// Halves the elements of a floating tensor.
void halve(Buffer& buffer, DType dtype);

}  // namespace lossgrid
