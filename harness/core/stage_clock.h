// SPDX-License-Identifier: Apache-2.0
// Time of a run by stage. Each thread has its own clock: scopes nest, and time in an inner scope
// does not count for the outer one. Ranks that are threads hand their times over at their end; of
// ranks that ran side by side the largest counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lossgrid {

/// Stages, in the order of reports.
enum class Stage {
  generate,  // inputs, also logits of a row that a check makes again
  truth,     // in float64
  run,       // implementations; in a timing also ceilings and the sampler
  compare,   // outputs with the truth, and all other checks
  bits,      // fingerprints, of inputs that must not change and outputs that must repeat
  report,    // its writing
};
inline constexpr std::size_t kStages = 6;

std::string_view name(Stage stage);

struct StageTimes {
  std::array<std::int64_t, kStages> ns{};

  std::int64_t& operator[](Stage stage) { return ns[static_cast<std::size_t>(stage)]; }
  std::int64_t operator[](Stage stage) const { return ns[static_cast<std::size_t>(stage)]; }
  std::int64_t total() const;
  void add(const StageTimes& other);
  /// Raises each time to the larger of the two, for ranks that ran at the same time.
  void raise_to(const StageTimes& other);
};

/// Scope whose time in this thread counts for a stage.
class StageScope {
 public:
  explicit StageScope(Stage stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  int outer_;
};

/// Moves `ns` of the current scope to another stage, for work that is mixed with it: at most as
/// much as the scope has lasted so far, nothing outside of scopes.
void reassign_stage_time(Stage to, std::int64_t ns);

/// Adds the times of other threads for which this one waited outside of scopes.
void add_stage_times(const StageTimes& times);

/// Returns and clears the times of this thread since its begin or the last call. Outside of scopes.
StageTimes take_stage_times();

}  // namespace lossgrid
