// SPDX-License-Identifier: Apache-2.0
// Histories of allocations as snapshots that their readers can load.
#include "harness/device/memory/memory_snapshot.h"

#include <gmock/gmock.h>

#include "snapshot_loader.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const SnapshotSubject kSubject{3, 0, "lens=5 \"vocab\"=24|tp2cp2|fused|cpu", "fused"};

/// Rank with buffers at chosen addresses, a microsecond apart.
class Rank {
 public:
  explicit Rank(std::size_t max_entries = 1000) : history_(max_entries) {}
  MemoryHistory& history() { return history_; }

  void allocate(const char* tag, std::uintptr_t address, std::size_t bytes) {
    history_.allocated(tag, "forward", at(address), bytes, time_ns_ += 1000);
  }
  void release(std::uintptr_t address) { history_.released(at(address), time_ns_ += 1000); }
  LoadedSnapshot load() const { return LoadedSnapshot(memory_snapshot(history_, kSubject)); }

 private:
  static const std::byte* at(std::uintptr_t address) {
    return reinterpret_cast<const std::byte*>(address);
  }

  MemoryHistory history_;
  std::int64_t time_ns_ = 1'795'212'000'000'000'000;
};

TEST(MemorySnapshot, IsEmptyWithoutAllocations) {
  const LoadedSnapshot loaded = Rank().load();
  EXPECT_THAT(loaded.complaints, IsEmpty());
  EXPECT_EQ(loaded.events, 0u);
}

// Addresses are reused with other sizes; buffers alive at the end are in the segments.
TEST(MemorySnapshot, GoesBackToTheBegin) {
  Rank rank;
  rank.history().start();
  rank.allocate("logits", 0x1000, 512);
  rank.allocate("lse", 0x2000, 64);
  rank.release(0x1000);
  rank.allocate("dlogits", 0x1000, 768);
  rank.allocate("empty", 0x9000, 0);
  rank.release(0x2000);
  rank.release(0x9000);
  const LoadedSnapshot loaded = rank.load();
  EXPECT_THAT(loaded.complaints, IsEmpty());
  EXPECT_THAT(loaded.devices, ElementsAre(3));
  EXPECT_EQ(loaded.events, 3u * 2 + 2u * 3);
  EXPECT_EQ(loaded.initial_bytes, 0);
  EXPECT_EQ(loaded.final_bytes, 768);
  EXPECT_EQ(loaded.peak_bytes, 64 + 768);
  EXPECT_THAT(loaded.tags, ElementsAre("dlogits", "logits", "lse"));
}

TEST(MemorySnapshot, HoldsAllocationsFromBeforeItsStep) {
  Rank rank;
  rank.allocate("input", 0x1000, 100);
  rank.allocate("weight", 0x2000, 200);
  rank.history().start();
  rank.release(0x1000);
  rank.allocate("scratch", 0x3000, 50);
  rank.history().stop();
  const LoadedSnapshot at_end = rank.load();
  EXPECT_THAT(at_end.complaints, IsEmpty());
  EXPECT_EQ(at_end.initial_bytes, 300);
  EXPECT_EQ(at_end.final_bytes, 250);
  // Between steps nothing is recorded; the next step has the live buffers.
  rank.release(0x3000);
  rank.history().start();
  rank.release(0x2000);
  const LoadedSnapshot next = rank.load();
  EXPECT_THAT(next.complaints, IsEmpty());
  EXPECT_EQ(next.events, 3u);
  EXPECT_EQ(next.initial_bytes, 200);
  EXPECT_EQ(next.final_bytes, 0);
}

// With dropped entries the rest loads and ends at the same state.
TEST(MemorySnapshot, EndsAtTheSameStateWithDroppedEntries) {
  constexpr std::size_t kBuffers = 7;
  for (std::size_t entries = 1; entries <= 4 * kBuffers + 1; ++entries) {
    Rank rank(entries);
    rank.history().start();
    for (std::uintptr_t k = 1; k <= kBuffers; ++k) rank.allocate("a", 0x1000 * k, 16 * k);
    for (std::uintptr_t k = 1; k <= kBuffers; ++k) {
      rank.release(0x1000 * k);
      if (k % 2 == 0) rank.allocate("b", 0x1000 * k + 64, 8);
    }
    const std::size_t all = 2 * kBuffers + kBuffers / 2;
    const std::vector<MemoryEvent> kept = rank.history().events();
    EXPECT_EQ(kept.size(), std::min(entries, all));
    EXPECT_EQ(rank.history().dropped(), all - kept.size());
    EXPECT_EQ(kept.back().bytes, 16 * kBuffers);  // the release of the last buffer
    const LoadedSnapshot loaded = rank.load();
    EXPECT_THAT(loaded.complaints, IsEmpty()) << entries;
    EXPECT_EQ(loaded.final_bytes, 8 * (kBuffers / 2));
  }
}

// The loader rejects broken snapshots, so its acceptance means something.
TEST(MemorySnapshot, ABrokenOneIsRefused) {
  Rank rank;
  rank.history().start();
  rank.allocate("logits", 0x1000, 512);
  rank.allocate("lse", 0x2000, 64);
  rank.release(0x1000);
  const auto whole = nlohmann::json::parse(memory_snapshot(rank.history(), kSubject));
  const auto complaints_after = [&](const auto& change) {
    nlohmann::json broken = whole;
    change(broken);
    return LoadedSnapshot(broken.dump()).complaints.size();
  };
  EXPECT_EQ(complaints_after([](auto&) {}), 0u);
  EXPECT_GT(complaints_after([](auto& s) { s["segments"].clear(); }), 0u);
  EXPECT_GT(complaints_after([](auto& s) { s["segments"][0]["blocks"][0]["size"] = 63; }), 0u);
  EXPECT_GT(complaints_after([](auto& s) { s["device_traces"][3].erase(1); }), 0u);
  EXPECT_GT(complaints_after([](auto& s) { s["device_traces"][3].erase(6); }), 0u);
  EXPECT_GT(complaints_after([](auto& s) { s["device_traces"][3][3]["size"] = 65; }), 0u);
  EXPECT_GT(complaints_after([](auto& s) { s["device_traces"][3][1]["frames"][0]["line"] = ""; }),
            0u);
}

}  // namespace
}  // namespace lossgrid
