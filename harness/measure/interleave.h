// SPDX-License-Identifier: Apache-2.0
// In which order things that are compared are timed: all of them in every round, so that drift of a
// shared machine cancels in their ratios; and every round in a random order, so that none always
// runs first, or always after the same other one. The order is a function of a recorded seed: all
// ranks come to the same one without asking each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lossgrid {

/// order := a permutation of 0 .. order.size() - 1, each as likely as any other (Fisher and Yates,
/// as Durstenfeld, "Algorithm 235: random permutation", 1964, made it). Allocates nothing.
void round_order(std::uint64_t seed, std::int64_t round, std::span<std::size_t> order);

}  // namespace lossgrid
