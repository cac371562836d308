// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/call_signature.h"

#include <fmt/format.h>

namespace lossgrid {

std::string_view operation(const CallSignature& call) {
  return call.collective ? name(*call.collective) : "split";
}

std::string describe(const CallSignature& call) {
  std::string text(operation(call));
  if (call.op) text += fmt::format(" {}", name(*call.op));
  if (call.collective && call.collective != Collective::barrier) {
    text += fmt::format(" of {} {}", call.count, name(call.dtype));
  }
  if (call.root) text += fmt::format(" from {}", *call.root);
  if (call.between_gpus) text += " between GPUs";
  return text;
}

std::string describe_mismatch(std::uint64_t number, std::string_view communicator, int first_rank,
                              const CallSignature& first, int other_rank,
                              const CallSignature& other) {
  return fmt::format("ranks disagree in call #{} of '{}': rank {} calls {}, rank {} calls {}",
                     number, communicator, first_rank, describe(first), other_rank,
                     describe(other));
}

}  // namespace lossgrid
