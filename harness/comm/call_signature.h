// SPDX-License-Identifier: Apache-2.0
// What the members of a group must agree on when they enter a call. Transports compare it, and say
// in the same words who called what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/comm/communicator.h"

namespace lossgrid {

struct CallSignature {
  std::optional<Collective> collective = std::nullopt;  // none: a split
  std::size_t count = 0;
  DType dtype = DType::u8;
  std::optional<ReduceOp> op = std::nullopt;
  std::optional<int> root = std::nullopt;
  bool between_gpus = false;  // carried past the hosts
  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// "all_reduce", "split"
std::string_view operation(const CallSignature& call);

/// "all_reduce sum of 8 f32"
std::string describe(const CallSignature& call);

/// "ranks disagree in call #2 of 'tp': rank 0 calls barrier, rank 3 calls split"; calls are
/// numbered from 1 within their communicator, ranks are those of the world.
std::string describe_mismatch(std::uint64_t number, std::string_view communicator, int first_rank,
                              const CallSignature& first, int other_rank,
                              const CallSignature& other);

}  // namespace lossgrid
