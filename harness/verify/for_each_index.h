// SPDX-License-Identifier: Apache-2.0
// A loop over independent indices on several threads. Which thread takes which index is open, so
// that a body that writes to places of its own index only has the same result on any number of
// threads.
#pragma once

#include <cstdint>
#include <functional>

namespace lossgrid {

/// Calls body(i) for every i in [0, count) on up to `threads` threads, this one among them.
/// Rethrows one of the exceptions when there were any, after all threads have ended.
void for_each_index(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace lossgrid
