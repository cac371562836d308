// SPDX-License-Identifier: Apache-2.0
// Self test of the measuring tools before their first use: known bytes, times and copies must be
// measured right. After a failed check no figure of the run can be trusted.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/clock.h"
#include "harness/device/device.h"

namespace lossgrid {

/// Result of one check.
struct SelfTestCheck {
  std::string name;
  bool passed = false;
  double expected = 0;  // known value or limit, as `detail` states
  double measured = 0;
  std::string unit;
  std::string detail;
};

/// Tools under test: the clock of samples, the accounting of allocations and the memory kernels.
/// The default is the tools of this program.
struct MeasuringTools {
  MeasuringTools();

  ClockNs now;
  std::function<Buffer(Device& device, std::size_t bytes)> allocate;
  std::function<void(std::chrono::nanoseconds)> sleep;
  std::function<void(const void* from, void* to, std::size_t bytes)> copy;
};

/// Runs three checks, in about 30 ms:
/// allocation  a buffer of N bytes raises live and peak bytes by exactly N, live until it is gone;
/// sleep       the shortest of a few sleeps of 5 ms takes 5 to 50 ms (machines are loaded);
/// copy        the copy is right, takes time, and is not faster than 10 TB/s: work was done.
std::vector<SelfTestCheck> run_self_test(const MeasuringTools& tools = {});

}  // namespace lossgrid
