// SPDX-License-Identifier: Apache-2.0
// Counts of collectives and of their payload bytes by operation, by a decorator. The payload is the
// size of the tensor argument: all_reduce and broadcast count * size, all_gather this rank's send,
// reduce_scatter the whole send, barrier 0. Bytes on the wire depend on the transport and are not
// counted here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/comm/communicator.h"

namespace lossgrid {

struct CollectiveCount {
  std::int64_t calls = 0;
  std::int64_t payload_bytes = 0;
  friend bool operator==(const CollectiveCount&, const CollectiveCount&) = default;
};

struct CollectiveCounts {
  std::array<CollectiveCount, kCollectives> by_operation{};

  CollectiveCount& operator[](Collective c) { return by_operation[static_cast<std::size_t>(c)]; }
  const CollectiveCount& operator[](Collective c) const {
    return by_operation[static_cast<std::size_t>(c)];
  }
  void add(Collective c, std::int64_t calls, std::int64_t payload_bytes) {
    (*this)[c].calls += calls;
    (*this)[c].payload_bytes += payload_bytes;
  }
  CollectiveCount total() const;
  friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

/// Makes a decorator that counts into `counts` and forwards to `inner`; both outlive it. Its splits
/// count into the same `counts`.
std::unique_ptr<Communicator> count_calls(Communicator& inner, CollectiveCounts& counts);

}  // namespace lossgrid
