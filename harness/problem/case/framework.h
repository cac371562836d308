// SPDX-License-Identifier: Apache-2.0
// The convention by which a training framework scales a gradient: what each part of it multiplies
// by between the loss and the gradient that the optimizer sees. The parts are written far from each
// other (loss, pipeline schedule, gather, data parallelism), so one of them changes and the product
// is no longer 1. A case states a convention by a preset (`framework`), by its parts
// (`framework.loss` and so on), or by a preset with some parts replaced; parts that nobody states
// are 1. The schedule's multiplier depends on the version of the schedule and is never assumed.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "harness/problem/case/case_spec.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// How gradients are reduced over all DP x CP ranks.
enum class DpReduction { sum, mean };

struct Framework {
  ScaleFactor loss;      // what the loss is multiplied by before backward
  ScaleFactor schedule;  // what the pipeline schedule multiplies it by
  // Backward of the gather of log-probabilities over CP. The loss behind it is the same on all CP
  // ranks: a rank that keeps its own part of the gradient has 1, a sum over ranks has cp.
  ScaleFactor gather;
  DpReduction dp_reduction = DpReduction::sum;
  // Of metrics that add up over tokens (sums and counts): cp where they are summed over DP x CP
  // although the log-probabilities behind them were gathered over CP.
  ScaleFactor metrics;

  /// Of the reduction: 1, or 1/(dp*cp) for the mean.
  ScaleFactor reduction() const;
  /// In the order in which they are applied: loss, schedule, gather, reduction.
  std::array<ScaleFactor, 4> gradient_factors() const;
  /// Of the gradient, their product. A right convention has 1.
  ScaleFactor net() const;
  friend bool operator==(const Framework&, const Framework&) = default;
};

struct FrameworkPreset {
  std::string name;
  Framework framework;
  std::string summary;
};

/// Upstream stacks, right and wrong ones, as they multiply.
std::span<const FrameworkPreset> framework_presets();

/// What a case states; none when it states nothing.
std::optional<Framework> stated_framework(const FrameworkSpec& spec);

/// "loss dp*cp x schedule 1 x gather cp x dp mean 1/(dp*cp) = cp = 2".
std::string describe_scale(const Framework& framework, const ScaleSizes& sizes);

std::string_view name(DpReduction reduction);

}  // namespace lossgrid
