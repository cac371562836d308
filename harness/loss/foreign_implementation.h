// SPDX-License-Identifier: Apache-2.0
// `ForeignImplementation`: the part of an implementation of loaded code that reports what its
// author declares about gradients and factors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/problem/case/scale_factor.h"

namespace lossgrid {

/// Parts of the gradient of the weight that the ranks over CP and DP hold after a backward:
/// summands, which the harness adds up; or, of train steps that add up by themselves, the whole on
/// every rank, or slices of the whole, as a reduce-scatter leaves them.
enum class WeightGradientParts { summands, replicas, slices };

/// Elements [begin, end) of a flat tensor.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Report of a rank on a train step that reduces by itself, beside its loss and its gradient.
struct StepReport {
  std::map<std::string, double> metrics;  // which the ranks that report them should have alike
  // Slices of this rank, where the gradient is in slices, of the weight [H, ids of the shard].
  std::vector<ElementRange> held;
};

class ForeignImplementation {
 public:
  virtual ~ForeignImplementation() = default;

  virtual WeightGradientParts weight_gradient() const = 0;
  /// Returns the factor without which loss and gradient are judged.
  virtual ScaleFactor declared_scale() const = 0;
  /// True if that is the factor of a loss that the function returns.
  virtual bool scales_loss() const = 0;
  /// True if gradient="summed_over_cp" is declared.
  virtual bool sums_over_cp() const = 0;
};

}  // namespace lossgrid
