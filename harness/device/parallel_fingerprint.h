// SPDX-License-Identifier: Apache-2.0
// Fingerprint of a large tensor by the threads of the rank: the sum of the fingerprints of its
// blocks, each with its place, so that it does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "harness/core/hash.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

/// Returns the fingerprint of `bytes`. A different `tensor` number for each tensor makes a sum of
/// fingerprints depend on which tensor has which bytes.
inline std::uint64_t parallel_fingerprint(std::span<const std::byte> bytes,
                                          std::uint64_t tensor = 0) {
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  const std::size_t blocks = (bytes.size() + kBlockBytes - 1) / kBlockBytes;
  std::atomic<std::uint64_t> sum = 0;
  parallel_for(static_cast<std::int64_t>(blocks), [&](std::int64_t begin, std::int64_t end) {
    for (auto block = static_cast<std::size_t>(begin); block < static_cast<std::size_t>(end);
         ++block) {
      const std::size_t at = block * kBlockBytes;
      sum += fingerprint(bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at)),
                         (tensor << 32) + block);
    }
  });
  return sum;
}

}  // namespace lossgrid
