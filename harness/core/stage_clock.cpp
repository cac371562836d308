// SPDX-License-Identifier: Apache-2.0
#include "harness/core/stage_clock.h"

#include <algorithm>
#include <numeric>

#include "harness/core/clock.h"

namespace lossgrid {
namespace {

constexpr int kNoStage = -1;

struct StageClock {
  StageTimes times;
  int stage = kNoStage;
  std::int64_t since_ns = 0;

  /// Adds the elapsed time to the current stage, then makes `next` the current stage.
  void turn(int next) {
    const std::int64_t now = steady_clock_ns();
    if (stage != kNoStage) times.ns[static_cast<std::size_t>(stage)] += now - since_ns;
    stage = next;
    since_ns = now;
  }
};

thread_local StageClock stage_clock;

}  // namespace

std::string_view name(Stage stage) {
  static constexpr std::array<std::string_view, kStages> names{"generate", "truth", "run",
                                                               "compare",  "bits",  "report"};
  return names[static_cast<std::size_t>(stage)];
}

std::int64_t StageTimes::total() const {
  return std::accumulate(ns.begin(), ns.end(), std::int64_t{0});
}

void StageTimes::add(const StageTimes& other) {
  for (std::size_t k = 0; k < kStages; ++k) ns[k] += other.ns[k];
}

void StageTimes::raise_to(const StageTimes& other) {
  for (std::size_t k = 0; k < kStages; ++k) ns[k] = std::max(ns[k], other.ns[k]);
}

StageScope::StageScope(Stage stage) : outer_(stage_clock.stage) {
  stage_clock.turn(static_cast<int>(stage));
}

StageScope::~StageScope() {
  stage_clock.turn(outer_);
}

void reassign_stage_time(Stage to, std::int64_t ns) {
  if (stage_clock.stage == kNoStage) return;
  stage_clock.turn(stage_clock.stage);
  std::int64_t& from = stage_clock.times.ns[static_cast<std::size_t>(stage_clock.stage)];
  const std::int64_t moved = std::min(ns, from);
  from -= moved;
  stage_clock.times[to] += moved;
}

void add_stage_times(const StageTimes& times) {
  stage_clock.times.add(times);
}

StageTimes take_stage_times() {
  const StageTimes times = stage_clock.times;
  stage_clock.times = {};
  return times;
}

}  // namespace lossgrid
