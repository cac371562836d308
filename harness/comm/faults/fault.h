// SPDX-License-Identifier: Apache-2.0
// Fault: a misbehaviour of one rank, ordered by `--inject rank=2,at=forward,kind=hang`, to test the
// harness's handling of failures. fault_injection.h carries it out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "harness/comm/faults/rank_trace.h"

namespace lossgrid {

/// Kinds of faults, with their names in the flag.
enum class FaultKind {
  exception,      // "throw": the rank throws
  hang,           // "hang": the rank never returns
  leave,          // "leave": the rank returns early, without an exception
  exit,           // "exit": the process exits at once, with code 3
  segfault,       // "segv": the process dies of SIGSEGV
  kill,           // "kill": the process dies of SIGKILL
  out_of_memory,  // "oom": an allocation fails
  device_loss,    // "device_lost": the next launch fails and costs the rank its GPU
  nan,            // "nan": one element of the output of the phase becomes NaN
};

struct Fault {
  int rank = 0;  // of the world
  int call = 1;  // without a phase: strikes before this collective of the rank, from 1; splits do
                 // not count
  FaultKind kind = FaultKind::exception;
  RankPhase phase =
      RankPhase::none;     // strikes at its begin in the rank's first pack; nan at its end
  std::int64_t trial = 0;  // number in the run, from 1, trials before timings; 0: all trials
  // Set by the struck rank, in its process, before the fault; shared by copies.
  std::shared_ptr<std::atomic<bool>> has_fired = std::make_shared<std::atomic<bool>>(false);
};

/// Reads "rank=R,kind=throw|hang|leave|exit|segv|kill|oom|device_lost|nan", with "call=N" or
/// "at=setup|plan|forward|backward|check" (neither: call=1), and "trial=N". nan needs a phase with
/// numbers as output, forward or backward; device_lost needs a phase. Throws Error(usage).
Fault parse_fault(std::string_view text);

}  // namespace lossgrid
