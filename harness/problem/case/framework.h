// SPDX-License-Identifier: Apache-2.0
// `Framework`: convention by which a training framework scales a gradient, as the factor of each
// part between the loss and the gradient that the optimizer sees. Frameworks write these parts in
// distant places (loss, pipeline schedule, gather, data parallelism); if one part changes, the
// product is no longer 1. A case states a convention by a preset (`framework`), by its parts
// (`framework.loss` and so on), or by a preset with some parts replaced; parts that are not stated
// are 1. The schedule's factor depends on the version of the schedule and is never assumed.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "harness/problem/case/case_spec.h"
#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Reduction of gradients over all DP x CP ranks.
enum class DpReduction { sum, mean };

/// Valid tokens whose count divides the terms of one rank's rows of a microbatch; a count of 0 is
/// replaced by 1.
enum class LossCounts {
  global,  // of the global batch
  pack,    // tokens of the microbatch, over its CP ranks: means of microbatches
  rank,    // tokens of the rank's rows of the microbatch: means of ranks
};

/// Counts of valid tokens: of one rank's rows of a microbatch, of all CP ranks' rows of the
/// microbatch, of the global batch.
struct TokenCounts {
  std::int64_t rank = 0;
  std::int64_t pack = 0;
  std::int64_t global = 0;
};

/// Convention of one framework; the default is a right convention without any factor.
struct Framework {
  ScaleFactor loss;      // factor of the loss before backward
  ScaleFactor schedule;  // factor of the loss in the pipeline schedule
  // Factor of the backward of the gather of log-probabilities over CP. All CP ranks compute the
  // same loss from the gathered values: a rank that keeps its own part of the gradient has 1, a sum
  // over ranks has cp.
  ScaleFactor gather;
  DpReduction dp_reduction = DpReduction::sum;
  // Factor of metrics that add up over tokens (sums and counts): cp if they are summed over DP x CP
  // although their log-probabilities were gathered over CP.
  ScaleFactor metrics;
  LossCounts counts = LossCounts::global;

  /// Returns the count by which terms are divided, at least 1.
  std::int64_t divisor(const TokenCounts& tokens) const;
  /// Returns alpha: the gradient is the sum over microbatches and ranks of alpha times the gradient
  /// of the sum of the terms. In a right convention every alpha is 1 / the global count.
  double gradient_weight(const ScaleSizes& sizes, const TokenCounts& tokens) const;
  /// True if alpha equals that of a right convention, or there are no terms.
  bool is_right(const ScaleSizes& sizes, const TokenCounts& tokens) const;
  /// Returns the factor of the reduction: 1, or 1/(dp*cp) for the mean.
  ScaleFactor reduction() const;
  /// Returns the factors in the order in which they apply: loss, schedule, gather, reduction.
  std::array<ScaleFactor, 4> gradient_factors() const;
  /// Returns the factor of the gradient, the product of gradient_factors(). A right convention with
  /// global counts has 1.
  ScaleFactor net() const;
  friend bool operator==(const Framework&, const Framework&) = default;
};

/// Named convention of an upstream stack.
struct FrameworkPreset {
  std::string name;
  Framework framework;
  std::string summary;
};

/// Returns the conventions of upstream stacks, both right and wrong.
std::span<const FrameworkPreset> framework_presets();

/// Returns the convention that a case states; nullopt without a convention.
std::optional<Framework> stated_framework(const FrameworkSpec& spec);

/// Returns "loss dp*cp x schedule 1 x gather cp x dp mean 1/(dp*cp) = cp = 2".
std::string describe_scale(const Framework& framework, const ScaleSizes& sizes);

std::string_view name(DpReduction reduction);
std::string_view name(LossCounts counts);

}  // namespace lossgrid
