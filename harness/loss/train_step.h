// SPDX-License-Identifier: Apache-2.0
// Results of a train step of loaded code that reduces over CP and DP by itself: in which form it
// leaves the gradient of the weight, and what a rank reports beside it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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

}  // namespace lossgrid
