// SPDX-License-Identifier: Apache-2.0
// In which order things that are compared are timed: all of them in turn, round after round, so
// that drift of a shared machine cancels in their ratios; and the other way round in every second
// round, so that none always runs first, or always after the same other one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lossgrid {

/// Indices 0 .. items - 1: ascending in even rounds (A B C), descending in odd ones (C B A).
std::vector<std::size_t> round_order(std::size_t items, std::int64_t round);

}  // namespace lossgrid
