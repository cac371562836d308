// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/memory_tracker.h"

#include <gmock/gmock.h>

namespace lossgrid {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(MemoryTracker, CountsLiveBytesByTag) {
  MemoryTracker tracker;
  tracker.allocated("logits", 100);
  tracker.allocated("lse", 10);
  tracker.allocated("logits", 50);
  EXPECT_EQ(tracker.live_bytes(), 160);
  EXPECT_THAT(tracker.live_by_tag(), ElementsAre(Pair("logits", 150), Pair("lse", 10)));
  tracker.released("logits", 100);
  tracker.released("lse", 10);
  EXPECT_EQ(tracker.live_bytes(), 50);
  EXPECT_THAT(tracker.live_by_tag(), ElementsAre(Pair("logits", 50)));
}

// The peak is the largest number of bytes live together, not the sum of requests, with the tags at
// the peak.
TEST(MemoryTracker, KeepsThePeakOfAPhaseAndItsTags) {
  MemoryTracker tracker;
  tracker.allocated("input", 1000);
  tracker.begin_phase("forward");
  tracker.allocated("scratch", 300);
  tracker.released("scratch", 300);
  tracker.allocated("a", 200);
  tracker.allocated("b", 250);
  tracker.released("b", 250);
  tracker.end_phase();
  ASSERT_EQ(tracker.phases().size(), 1u);
  const PhaseMemory& phase = tracker.phases()[0];
  EXPECT_EQ(phase.phase, "forward");
  EXPECT_EQ(phase.peak_bytes, 1450);
  EXPECT_THAT(phase.by_tag_bytes, ElementsAre(Pair("a", 200), Pair("b", 250), Pair("input", 1000)));
  EXPECT_EQ(phase.end_bytes, 1200);
}

// The peak of the whole life includes allocations between phases.
TEST(MemoryTracker, KeepsThePeakOfItsLife) {
  MemoryTracker tracker;
  EXPECT_EQ(tracker.peak_bytes(), 0);
  tracker.begin_phase("forward");
  tracker.allocated("a", 100);
  tracker.end_phase();
  tracker.allocated("between", 50);
  tracker.released("a", 100);
  tracker.allocated("a", 60);
  EXPECT_EQ(tracker.peak_bytes(), 150);
}

// A phase begins at the live bytes, not at the peak of the previous phase, and ends the previous
// phase.
TEST(MemoryTracker, PhasesAreApart) {
  MemoryTracker tracker;
  tracker.begin_phase("forward");
  tracker.allocated("scratch", 500);
  tracker.released("scratch", 500);
  tracker.allocated("kept", 40);
  tracker.begin_phase("backward");
  tracker.released("kept", 40);
  tracker.allocated("grad", 30);
  tracker.end_phase();
  tracker.allocated("outside", 9999);
  ASSERT_EQ(tracker.phases().size(), 2u);
  EXPECT_EQ(tracker.phases()[0].peak_bytes, 500);
  EXPECT_EQ(tracker.phases()[0].end_bytes, 40);
  EXPECT_EQ(tracker.phases()[0].allocations, 2);
  EXPECT_EQ(tracker.phases()[1].phase, "backward");
  EXPECT_EQ(tracker.phases()[1].peak_bytes, 40);
  EXPECT_THAT(tracker.phases()[1].by_tag_bytes, ElementsAre(Pair("kept", 40)));
  EXPECT_EQ(tracker.phases()[1].end_bytes, 30);
  EXPECT_EQ(tracker.phases()[1].allocations, 1);
}

TEST(MemoryTracker, APhaseWithoutAllocationsHasThePeakBeforeIt) {
  MemoryTracker tracker;
  tracker.allocated("input", 7);
  tracker.begin_phase("forward");
  tracker.end_phase();
  EXPECT_EQ(tracker.phases()[0].peak_bytes, 7);
  EXPECT_THAT(tracker.phases()[0].by_tag_bytes, ElementsAre(Pair("input", 7)));
  EXPECT_EQ(tracker.live_bytes(), 7);
}

TEST(MemoryTracker, EndWithoutPhaseDoesNothing) {
  MemoryTracker tracker;
  tracker.begin_phase("forward");
  tracker.end_phase();
  tracker.allocated("late", 5);
  tracker.end_phase();
  EXPECT_EQ(tracker.phases()[0].end_bytes, 0);
}

TEST(MemoryTracker, EmptyBuffersOfOneTagMayBeReleasedInAnyOrder) {
  MemoryTracker tracker;
  tracker.allocated("gathered", 0);
  tracker.allocated("gathered", 0);
  tracker.allocated("input", 3);
  tracker.released("gathered", 0);
  tracker.released("gathered", 0);
  tracker.begin_phase("forward");
  EXPECT_THAT(tracker.phases()[0].by_tag_bytes, ElementsAre(Pair("input", 3)));
  EXPECT_EQ(tracker.live_bytes(), 3);
}

}  // namespace
}  // namespace lossgrid
