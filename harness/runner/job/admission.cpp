// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/admission.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace lossgrid {
namespace {

bool is_of_implementation(ErrorCode code) {
  return code == ErrorCode::unsupported || code == ErrorCode::rank_failed ||
         code == ErrorCode::process_died || code == ErrorCode::timeout;
}

}  // namespace

std::optional<SkipReason> Admission::closed(std::optional<SkipReason> not_asked) const {
  if (not_asked) return not_asked;
  return ranks_.agree_on_first_error(ranks_.unavailable(backend_, grid_.ranks()));
}

Refusal Admission::refusal(
    const std::function<std::optional<SkipReason>(RanksMemory& need)>& ask) const {
  Refusal own;
  try {
    own.skipped = own_reason(ask);
  } catch (const Error& error) {
    if (!is_of_implementation(error.code())) throw;
    own.failure = {error.code(), error.what()};
  }
  const std::string failed = ranks_.agree_on_first_error(
      own.failure ? fmt::format("{} {}", static_cast<int>(own.failure->code), own.failure->text)
                  : "");
  Refusal agreed;
  if (failed.empty()) {
    agreed.skipped = ranks_.agree_on_first_error(own.skipped);
    return agreed;
  }
  const std::size_t blank = failed.find(' ');
  agreed.failure = {static_cast<ErrorCode>(std::stoi(failed.substr(0, blank))),
                    failed.substr(blank + 1)};
  return agreed;
}

std::optional<SkipReason> Admission::own_reason(
    const std::function<std::optional<SkipReason>(RanksMemory& need)>& ask) const {
  RanksMemory need{.rank_bytes =
                       std::vector<std::int64_t>(static_cast<std::size_t>(grid_.ranks()))};
  if (std::optional<SkipReason> reason = ask(need)) return reason;
  return memory_shortage(backend_, need, ranks_.has_nccl());
}

}  // namespace lossgrid
