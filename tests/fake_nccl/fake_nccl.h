// SPDX-License-Identifier: Apache-2.0
// Fake NCCL: a library with the functions of NCCL that the transport uses, for ranks that are
// threads of one process with emulated devices. Collectives are kernels on the streams of these,
// which wait for each other as those of NCCL do. Sums go in rank order; max and min drop a NaN, as
// NCCL's do. FakeNccl makes it misbehave and counts its calls.
#pragma once

#include <atomic>

namespace lossgrid {

struct FakeNccl {
  // Set before communicators are made.
  std::atomic<int> version{22809};     // reported version; before 2.18 calls block
  std::atomic<int> failing_rank{-1};   // of a group: its next collective is an asynchronous error
  std::atomic<int> refusing_rank{-1};  // of a group: its next collective is refused at once
  std::atomic<bool> hangs{false};      // collectives never end by themselves

  std::atomic<int> connected{0};  // communicators by ncclCommInitRank and ncclCommInitRankConfig
  std::atomic<int> split{0};      // by ncclCommSplit
  std::atomic<int> aborted{0};
  std::atomic<int> destroyed{0};
  std::atomic<int> collectives{0};

  int made() const { return connected + split; }
};

/// Controls of the loaded library, exported under this name.
inline constexpr const char* kFakeNcclSymbol = "lossgrid_fake_nccl";
using FakeNcclFunction = FakeNccl* (*)();

}  // namespace lossgrid
