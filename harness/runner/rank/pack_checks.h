// SPDX-License-Identifier: Apache-2.0
// `PackChecks`: compares one rank's outputs for one pack with the float64 truth (per-token outputs,
// gradients), checks invariants, takes bitwise fingerprints. Used by trials and timings. Loss,
// metrics and the gradient of a weight belong to the whole batch and are compared there.
//
// A new invariant of a rank: a RegisteredInvariant and one call of findings.add_invariant() in
// check(). Its merge over ranks and packs, its report and its effect on the verdict follow.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/rank/rank_tensors.h"

namespace lossgrid {

inline const RegisteredInvariant kGuardBandsIntact{
    {.name = "guard_bands_intact",
     .condition = "nothing is written outside of the buffers",
     .place = 4}};

/// Places of per-token outputs: the rows of all of them, and the own rows among those.
struct TokenPlaces {
  std::vector<RowPlace> rows;
  std::vector<std::int64_t> own;  // indices into rows, as many as there are rows on the CP rank
};

/// Returns the places of a pack of `problem` on a rank: its own rows, or the whole pack, by `scope`
/// (ImplementationTraits::logprobs).
TokenPlaces place_tokens(const Problem& problem, const LossProblem& loss_problem, int cp_rank,
                         LogprobScope scope);

/// Outputs that an implementation returns for a pack, and their truth; all outlive the object.
struct PackChecks {
  const Problem& problem;
  const LossProblem& loss_problem;
  const GradientTruth& truth;
  const TokenPlaces& places;
  const Outputs& given;  // outputs that are checked
  std::int64_t rank;     // of the world

  /// Adds checks, invariants and fingerprints of `outputs` and of the gradients in `tensors`.
  void check(const LossOutputs& outputs, const RankTensors& tensors, PackFindings& findings) const;

  /// Adds the fingerprints alone, to findings that have none.
  void fingerprint(const LossOutputs& outputs, const RankTensors& tensors,
                   PackFindings& findings) const;

  /// Adds the invariants that the inputs have the same bits as before and that nothing was written
  /// outside of the buffers of `device`. `changed`: names of the inputs that changed, where they
  /// are known.
  static void check_memory(bool inputs_as_before, Device& device, PackFindings& findings,
                           const std::string& changed = "");

 private:
  void describe_failed_logprobs(const LossOutputs& outputs, PackFindings& findings) const;
  void describe_failed_entropies(const LossOutputs& outputs, PackFindings& findings) const;
  void check_ranges(const LossOutputs& outputs, PackFindings& findings) const;
  void check_gradients(const RankTensors& tensors, PackFindings& findings) const;
  std::uint64_t value_fingerprint(std::span<const float> values, std::size_t k) const;
};

}  // namespace lossgrid
