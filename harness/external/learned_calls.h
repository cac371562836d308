// SPDX-License-Identifier: Apache-2.0
// The collectives that external implementations were seen to make, in their order: what mutants of
// them are made from. Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lossgrid {

struct LearnedCall {
  std::string operation;  // "all_reduce"
  std::string group;      // "tp"
  std::string reduce;     // "sum"; empty where nothing is reduced
  std::int64_t payload_bytes = 0;
};

class LearnedCalls {
 public:
  using Calls = std::vector<LearnedCall>;

  /// Keeps the longest list of a phase.
  void see(const std::string& implementation, const std::string& phase, Calls calls) {
    const std::lock_guard lock(mutex_);
    Calls& longest = calls_[{implementation, phase}];
    if (calls.size() > longest.size()) longest = std::move(calls);
  }

  Calls of(const std::string& implementation, const std::string& phase) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find({implementation, phase});
    return found == calls_.end() ? Calls{} : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Calls> calls_;
};

}  // namespace lossgrid
