// SPDX-License-Identifier: Apache-2.0
// Where the time of a run goes, by stage. Each thread has its own clock: scopes nest, and what
// happens in an inner scope is not counted for the outer one. Ranks that are threads hand their
// times over when they end; those of ranks that ran side by side count once, as the largest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lossgrid {

/// In this order in reports.
enum class Stage {
  generate,  // inputs, also where a check makes the logits of a row again
  truth,     // in float64
  run,       // the implementations; of a timing, ceilings and the sampler too
  compare,   // of outputs with the truth, and what else is checked
  bits,      // fingerprints: whether inputs stay as they are, and outputs the same on every run
  report,    // writing it
};
inline constexpr std::size_t kStages = 6;

std::string_view name(Stage stage);

struct StageTimes {
  std::array<std::int64_t, kStages> ns{};

  std::int64_t& operator[](Stage stage) { return ns[static_cast<std::size_t>(stage)]; }
  std::int64_t operator[](Stage stage) const { return ns[static_cast<std::size_t>(stage)]; }
  std::int64_t total() const;
  void add(const StageTimes& other);
  /// Each the larger of the two: of ranks that ran at the same time.
  void raise_to(const StageTimes& other);
};

/// Counts the time of this thread for a stage until it ends.
class StageScope {
 public:
  explicit StageScope(Stage stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  int outer_;
};

/// Says that `ns` of the current scope belong to another stage: work that was mixed with it. At
/// most as much as the scope has lasted so far, nothing outside of scopes.
void reassign_stage_time(Stage to, std::int64_t ns);

/// Adds what other threads needed while this one waited for them outside of scopes.
void add_stage_times(const StageTimes& times);

/// Of this thread since it began or since the last call. Outside of scopes.
StageTimes take_stage_times();

}  // namespace lossgrid
