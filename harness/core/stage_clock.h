// SPDX-License-Identifier: Apache-2.0
// Time of a run by stage. Each thread has its own clock: scopes nest, and time in an inner scope
// does not count for the outer one. Ranks that are threads hand over their times when they end; the
// largest time of ranks that ran side by side counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lossgrid {

/// Stages, in the order of reports.
enum class Stage {
  generate,  // inputs, and logits of a row that a check generates again
  truth,     // float64 oracle
  run,       // implementations; in a timing, ceilings and the sampler too
  compare,   // outputs with the truth, and all other checks
  bits,      // fingerprints of inputs that must not change, and of outputs that must repeat
  report,    // writing of the report
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

/// Moves `ns` from the current scope to stage `to`, for work of `to` inside the scope. Moves at
/// most the time that the scope has lasted so far; outside of scopes, nothing.
void reassign_stage_time(Stage to, std::int64_t ns);

/// Adds the times of other threads for which this one waited outside of scopes.
void add_stage_times(const StageTimes& times);

/// Returns and clears the times of this thread since its start or the last call. Must be called
/// outside of scopes.
StageTimes take_stage_times();

}  // namespace lossgrid
