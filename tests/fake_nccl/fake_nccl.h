// SPDX-License-Identifier: Apache-2.0
// A library with the functions of NCCL that the transport uses, for ranks that are threads of one
// process and whose devices are emulated: collectives are kernels on the streams of these, which
// wait for each other as those of NCCL do. Sums go in rank order; max and min drop a NaN, as NCCL's
// do. It can be told to misbehave, and counts what it is asked for.
#pragma once

#include <atomic>

namespace lossgrid {

struct FakeNccl {
  // To be set before communicators are made.
  std::atomic<int> version{22809};     // what it says of itself; before 2.18 calls block
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

/// The one of the loaded library, exported under this name.
inline constexpr const char* kFakeNcclSymbol = "lossgrid_fake_nccl";
using FakeNcclFunction = FakeNccl* (*)();

}  // namespace lossgrid
