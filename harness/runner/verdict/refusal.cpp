// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/refusal.h"

#include <string>

namespace lossgrid {
namespace {

bool is_of_implementation(ErrorCode code) {
  return code == ErrorCode::unsupported || code == ErrorCode::rank_failed ||
         code == ErrorCode::process_died || code == ErrorCode::timeout;
}

}  // namespace

TrialFacts agree_on_refusal(const Ranks& ranks,
                            const std::function<std::optional<SkipReason>()>& skip_reason) {
  TrialFacts own;
  try {
    own.skipped = skip_reason();
  } catch (const Error& error) {
    if (!is_of_implementation(error.code())) throw;
    own.failure = {error.code(), error.what()};
  }
  const std::string failed = ranks.agree_on_first_error(
      own.failure ? fmt::format("{} {}", static_cast<int>(own.failure->code), own.failure->text)
                  : "");
  TrialFacts agreed;
  if (failed.empty()) {
    agreed.skipped = ranks.agree_on_first_error(own.skipped);
    return agreed;
  }
  const std::size_t blank = failed.find(' ');
  agreed.failure = {static_cast<ErrorCode>(std::stoi(failed.substr(0, blank))),
                    failed.substr(blank + 1)};
  return agreed;
}

}  // namespace lossgrid
