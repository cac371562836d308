// SPDX-License-Identifier: Apache-2.0
// What is looked at in all that a plan returned for one pack on one rank, whoever ran it: outputs
// by token and gradients against the truth, what must hold whatever the truth is, and fingerprints.
// Loss, metrics and the gradient of a weight belong to the whole batch and are judged there.
#pragma once

#include <vector>

#include "harness/runner/trial/rank_tensors.h"

namespace lossgrid {

/// Where outputs by token stand: the rows of all of them, and the own rows among those.
struct TokenPlaces {
  std::vector<RowPlace> rows;
  std::vector<std::int64_t> own;  // as many as there are rows on the CP rank
};

/// Of a pack of `problem` on a rank: its own rows, or the whole pack by
/// ImplementationTraits::logprobs.
TokenPlaces place_tokens(const Problem& problem, const LossProblem& loss_problem, int cp_rank,
                         LogprobScope scope);

/// An implementation's outputs for a pack, and what they are compared with; all outlive it.
struct PackChecks {
  const Problem& problem;
  const LossProblem& loss_problem;
  const GradientTruth& truth;
  const TokenPlaces& places;
  const Outputs& given;  // only these are looked at
  std::int64_t rank;     // of the world

  /// Adds checks, invariants and fingerprints of `outputs` and of the gradients in `tensors`.
  void check(const LossOutputs& outputs, const RankTensors& tensors, PackFindings& findings) const;

  /// The fingerprints alone.
  void fingerprint(const LossOutputs& outputs, const RankTensors& tensors,
                   PackFindings& findings) const;

  /// That every byte of the inputs is as before, and that no buffer of `device` was left.
  /// `changed`: names of the inputs that are not, where they are known.
  static void check_memory(bool inputs_as_before, Device& device, PackFindings& findings,
                           const std::string& changed = "");

 private:
  void look_at_failed(const LossOutputs& outputs, PackFindings& findings) const;
  void check_ranges(const LossOutputs& outputs, PackFindings& findings) const;
  void check_gradients(const RankTensors& tensors, PackFindings& findings) const;
  std::uint64_t value_fingerprint(std::span<const float> values, std::size_t k) const;
};

}  // namespace lossgrid
