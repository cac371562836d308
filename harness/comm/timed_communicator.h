// SPDX-License-Identifier: Apache-2.0
// A decorator that adds up how long this rank was inside of collectives: the transfer itself, and
// the wait for ranks that come later. What is left of a phase is the time of its own kernels. Reads
// the clock twice a call and allocates nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

/// Forwards to `inner` and adds the nanoseconds of every collective to `total_ns`; both outlive the
/// decorator. Several decorators of a rank may share one `total_ns`, and a split of one does. A
/// collective that throws adds nothing.
std::unique_ptr<Communicator> time_calls(Communicator& inner, std::int64_t& total_ns,
                                         ClockNs clock = steady_clock_ns);

}  // namespace lossgrid
