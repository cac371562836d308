// SPDX-License-Identifier: Apache-2.0
// Time of a rank inside of collectives, by a decorator: the transfer itself and the wait for later
// ranks. The remainder of a phase is the time of its own kernels. Reads the clock twice a call and
// allocates nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/comm/communicator.h"
#include "harness/core/clock.h"

namespace lossgrid {

/// Makes a decorator that forwards to `inner` and adds the nanoseconds of every collective to
/// `total_ns`; both outlive it. Several decorators of a rank may share one `total_ns`, and its
/// splits do. A collective that throws adds nothing.
std::unique_ptr<Communicator> time_calls(Communicator& inner, std::int64_t& total_ns,
                                         ClockNs clock = steady_clock_ns);

}  // namespace lossgrid
