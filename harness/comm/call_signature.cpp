// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/call_signature.h"

#include <fmt/format.h>

namespace lossgrid {

std::string describe(const CallSignature& call) {
  std::string text(call.operation);
  if (call.op) text += fmt::format(" {}", name(*call.op));
  if (call.has_payload) text += fmt::format(" of {} {}", call.count, name(call.dtype));
  if (call.root) text += fmt::format(" from {}", *call.root);
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
