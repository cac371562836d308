// SPDX-License-Identifier: Apache-2.0
// Order of compared items in a round of a timing: all of them in every round, so that drift of a
// shared machine cancels in their ratios, and in a random order, so that none always runs first or
// behind the same other one. The order is a function of a recorded seed: all ranks compute the same
// one without communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lossgrid {

/// Sets `order` to a permutation of 0 .. order.size() - 1, each with the same probability (Fisher
/// and Yates, in the form of Durstenfeld, "Algorithm 235: random permutation", 1964). Allocates
/// nothing.
void round_order(std::uint64_t seed, std::int64_t round, std::span<std::size_t> order);

}  // namespace lossgrid
