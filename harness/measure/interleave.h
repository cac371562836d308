// SPDX-License-Identifier: Apache-2.0
// Order of compared items in a round of a timing. Every round runs all items, so that drift of a
// shared machine cancels in their ratios. The order is random, so that no item always runs first or
// after the same item. It is a function of a recorded seed: all ranks compute the same order
// without communication.
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
