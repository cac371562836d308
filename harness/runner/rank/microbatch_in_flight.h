// SPDX-License-Identifier: Apache-2.0
// `MicrobatchInFlight`: another microbatch of a pack's shape, with a plan and buffers of its own.
// Its passes run between those of the pack: forward, forward, backward, backward, as in a pipeline
// with one forward and one backward in turn (1F1B; Narayanan et al. 2021, "Efficient large-scale
// language model training on GPU clusters", figure 4). An implementation that keeps what its
// backward needs anywhere but in its plan then gets a wrong gradient.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "harness/core/skip_reason.h"
#include "harness/runner/rank/rank_tensors.h"
#include "harness/runner/rank/trial_setup.h"

namespace lossgrid {

class MicrobatchInFlight {
 public:
  /// Plans the microbatch. Collective over context.stage; `tokens` per-token outputs a plan.
  MicrobatchInFlight(const TrialSetup& setup, const RankPack& pack, RankContext context,
                     std::int64_t tokens);

  void forward();
  void backward();

 private:
  std::unique_ptr<RankTensors> tensors_;
  DeviceArray<float> tokens_;
  LossOutputs outputs_;
  std::unique_ptr<LossPlan> plan_;
};

/// Returns a reason if no second microbatch runs beside the packs of a trial.
std::optional<SkipReason> not_in_flight(const TrialSetup& setup);

/// Returns a norm below which a gradient is nothing but roundings: 64 units in the last place of
/// float32 of the norm of d loss / d logprob. With a certain label no more than that is left.
double rounding_norm(const Truth& truth);

/// Returns |again - first| / |first| (Euclidean norms) if it is more than a hundredth, which no
/// order of additions explains, and |again - first| exceeds `roundings`; nullopt otherwise.
/// Elements that are not finite in both are left out; one that is finite in `first` alone gives
/// infinity.
std::optional<double> distance_in_flight(const std::vector<double>& first,
                                         const std::vector<double>& again, double roundings);

}  // namespace lossgrid
