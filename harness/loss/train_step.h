// SPDX-License-Identifier: Apache-2.0
// Results of a train step of loaded code that reduces over CP and DP itself: the form of the
// weight's gradient, and the report of a rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lossgrid {

/// Parts of the gradient of the weight on the ranks over CP and DP after a backward: summands,
/// which the harness adds up; or, after train steps that reduce gradients themselves, the whole on
/// every rank, or slices of the whole, as after a reduce-scatter.
enum class WeightGradientParts { summands, replicas, slices };

/// Elements [begin, end) of a flat tensor.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Report of a rank, in addition to loss and gradient, on a train step that reduces itself.
struct StepReport {
  std::map<std::string, double> metrics;  // must be equal on ranks that report them
  // Slices of this rank in the weight [H, ids of the shard], if the gradient is in slices.
  std::vector<ElementRange> held;
};

}  // namespace lossgrid
