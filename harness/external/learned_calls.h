// SPDX-License-Identifier: Apache-2.0
// `LearnedCalls`: the collectives that external implementations made in trials, in order, and the
// implementations whose entropy has no gradient. Mutants are made from these calls. Any thread may
// call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lossgrid {

struct LearnedCall {
  std::string operation;  // "all_reduce"
  std::string group;      // "tp"
  std::string reduce;     // "sum"; empty for operations that do not reduce
  std::int64_t payload_bytes = 0;
};

class LearnedCalls {
 public:
  using Calls = std::vector<LearnedCall>;

  /// Records the calls of a phase, of which the longest list is kept.
  void see(const std::string& implementation, const std::string& phase, Calls calls) {
    const std::lock_guard lock(mutex_);
    Calls& longest = calls_[{implementation, phase}];
    if (calls.size() > longest.size()) longest = std::move(calls);
  }

  /// Records an implementation whose entropy has no graph for a backward.
  void see_entropy_without_graph(const std::string& implementation) {
    const std::lock_guard lock(mutex_);
    entropy_without_graph_.insert(implementation);
  }

  bool is_entropy_without_graph(const std::string& implementation) const {
    const std::lock_guard lock(mutex_);
    return entropy_without_graph_.contains(implementation);
  }

  /// Returns the calls of a phase; empty if the phase never ran.
  Calls of(const std::string& implementation, const std::string& phase) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find({implementation, phase});
    return found == calls_.end() ? Calls{} : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Calls> calls_;
  std::set<std::string> entropy_without_graph_;
};

}  // namespace lossgrid
