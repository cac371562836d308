// SPDX-License-Identifier: Apache-2.0
// Parallel loop over independent indices. Any thread may take any index: a body that writes only to
// places of its own index has the same result on any number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace lossgrid {

/// Calls body(i) for every i in [0, count) on up to `threads` threads, this one among them.
/// If bodies throw, rethrows one of the exceptions after all threads have ended.
void for_each_index(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

/// Returns the number of threads, at most `threads`, that are worth their start for a loop over
/// `numbers` numbers: a thread starts in some 50 microseconds, in which another one computes a
/// thousand of them.
int threads_for(std::int64_t numbers, int threads);

}  // namespace lossgrid
