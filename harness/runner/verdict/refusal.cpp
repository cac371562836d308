// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/refusal.h"

namespace lossgrid {
namespace {

bool is_of_users_code(ErrorCode code) {
  return code == ErrorCode::rank_failed || code == ErrorCode::process_died ||
         code == ErrorCode::timeout;
}

}  // namespace

Refusal agreed_refusal(const Ranks& ranks, const std::function<std::string()>& why_not) {
  Refusal own;
  try {
    own.reason = why_not();
  } catch (const Error& error) {
    if (!is_of_users_code(error.code())) throw;
    own = {error.what(), error.code()};
  }
  const std::string code = own.failure ? std::to_string(static_cast<int>(*own.failure)) : "";
  const std::string failed = ranks.first_text(own.failure ? code + ' ' + own.reason : "");
  if (failed.empty()) return {ranks.first_text(own.reason)};
  const std::size_t blank = failed.find(' ');
  return {failed.substr(blank + 1), static_cast<ErrorCode>(std::stoi(failed.substr(0, blank)))};
}

}  // namespace lossgrid
