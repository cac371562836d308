// SPDX-License-Identifier: Apache-2.0
// CallSignature: the properties of a collective that all members of a group must agree on.
// Transports compare it on entry and describe mismatches in the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/comm/communicator.h"

namespace lossgrid {

struct CallSignature {
  std::optional<Collective> collective = std::nullopt;  // nullopt: a split
  std::size_t count = 0;
  DType dtype = DType::u8;
  std::optional<ReduceOp> op = std::nullopt;
  std::optional<int> root = std::nullopt;
  bool between_gpus = false;  // the payload does not pass through the hosts
  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// Returns "all_reduce", ..., or "split".
std::string_view operation(const CallSignature& call);

/// Returns "all_reduce sum of 8 f32" and the like.
std::string describe(const CallSignature& call);

/// Returns "ranks disagree in call #2 of 'tp': rank 0 calls barrier, rank 3 calls split". Calls are
/// numbered from 1 within their communicator, ranks are those of the world.
std::string describe_mismatch(std::uint64_t number, std::string_view communicator, int first_rank,
                              const CallSignature& first, int other_rank,
                              const CallSignature& other);

}  // namespace lossgrid
