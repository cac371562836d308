// SPDX-License-Identifier: Apache-2.0
// How one rank is made to misbehave, so that the harness's own handling of failures can be tested:
// `--inject rank=2,at=forward,kind=hang`. What it does is in fault_injection.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "harness/comm/faults/rank_trace.h"

namespace lossgrid {

enum class FaultKind {
  exception,      // "throw": an exception on this rank
  hang,           // "hang": this rank never comes back
  leave,          // "leave": this rank throws nothing and takes no further part
  exit,           // "exit": its process ends at once, with exit code 3
  segfault,       // "segv": its process dies of SIGSEGV
  kill,           // "kill": its process dies of SIGKILL
  out_of_memory,  // "oom": an allocation fails
  device_loss,    // "device_lost": what it launches next fails, and its GPU with it
  nan,            // "nan": one element of what the phase gives is not a number
};

struct Fault {
  int rank = 0;  // of the world
  int call = 1;  // where no phase is given: before the n-th collective that the rank enters, from
                 // 1; `split` does not count
  FaultKind kind = FaultKind::exception;
  RankPhase phase = RankPhase::none;  // at its begin in the rank's first pack; writes_a_nan: behind
  std::int64_t trial = 0;  // the n-th of the run, trials before timings, from 1; 0: all of them
  // Set by the rank of this process that it strikes, before it does; copies share it.
  std::shared_ptr<std::atomic<bool>> has_fired = std::make_shared<std::atomic<bool>>(false);
};

/// Reads "rank=R,kind=throw|hang|leave|exit|segv|kill|oom|device_lost|nan", with "call=N" or
/// "at=setup|plan|forward|backward|check" (neither: call=1), and "trial=N". nan is for forward and
/// backward, which give numbers; device_lost needs a phase. Throws Error(usage).
Fault parse_fault(std::string_view text);

}  // namespace lossgrid
