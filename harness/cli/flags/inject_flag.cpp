// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/inject_flag.h"

#include <CLI/CLI.hpp>

#include "harness/core/error.h"
#include "harness/device/backend.h"

namespace lossgrid {

void add_inject_flag(CLI::App& command, InjectFlag& flag) {
  command.add_option(
      "--inject", flag.fault,
      "make a rank misbehave, to see what the harness does: "
      "rank=2,at=forward,kind=throw|hang|leave|exit|segv|kill|oom|nan|device_lost, where its "
      "first pack comes to setup|plan|forward|backward|check, or call=3: before its third "
      "collective; trial=4: in the fourth trial or timing only; ends with 64 if that never comes");
  command.add_flag("--inject-may-miss", flag.may_miss)->group("");  // given by --supervise
}

std::optional<Fault> requested_fault(const InjectFlag& flag, const std::string& backend) {
  if (flag.fault.empty()) return std::nullopt;
  const Fault fault = parse_fault(flag.fault);
  if (fault.kind == FaultKind::device_loss &&
      !traits_of(parse_backend(backend, "--backend: ")).launches_kernels) {
    throw Error(ErrorCode::usage,
                "--inject kind=device_lost: the processor cannot be lost; it needs --backend "
                "cuda_emulated or cuda");
  }
  return fault;
}

std::optional<Fault> fault_behind(std::size_t count, std::optional<Fault> fault) {
  if (!fault || fault->trial == 0) return fault;
  fault->trial -= static_cast<std::int64_t>(count);
  return fault->trial > 0 ? fault : std::nullopt;
}

bool has_missed(const std::optional<Fault>& fault, const Ranks& ranks) {
  return fault && !ranks.agree_on_any(*fault->has_fired);
}

void refuse_missed(const InjectFlag& flag) {
  if (flag.may_miss) return;
  throw Error(ErrorCode::usage,
              fmt::format("--inject {}: the fault never fired: no rank came to that trial, phase "
                          "or collective",
                          flag.fault));
}

}  // namespace lossgrid
