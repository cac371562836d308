// SPDX-License-Identifier: Apache-2.0
// `ExternalRuntime`: the place where user code runs, worker processes (worker.h) or this process
// (plugin/plugin_runtime.h), behind the requests and answers of python/PROTOCOL.md.
// `ExternalSession`: one plan in a runtime, for one rank and its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/external/declared_cost.h"
#include "harness/external/learned_calls.h"
#include "harness/external/shared_arrays.h"

namespace lossgrid {

class ExternalSession {
 public:
  virtual ~ExternalSession() = default;
  /// Runs the user's code for a `forward` or a `backward` and returns the answer. `doing` is for
  /// messages: "forward of 'mine'". Collective. Throws rank_failed with the reason of the user's
  /// code, process_died, not_enough_memory, timeout or aborted.
  virtual nlohmann::json ask(const nlohmann::json& request, const std::string& doing) = 0;
  /// Implements LossPlan::end().
  virtual std::optional<std::string> end() = 0;
};

/// Subject of a plan. Everything it refers to must outlive the plan.
struct PlanRequest {
  std::string implementation;
  nlohmann::json options;
  nlohmann::json problem;  // problem without a rank
  const SharedArrays& arrays;
};

class ExternalRuntime {
 public:
  virtual ~ExternalRuntime() = default;

  /// The following functions ask the user's functions about a problem. They throw rank_failed,
  /// timeout or process_died.
  virtual std::optional<SkipReason> unsupported(const std::string& implementation,
                                                const nlohmann::json& options,
                                                const nlohmann::json& problem) = 0;
  virtual std::int64_t chunks(const std::string& implementation, const nlohmann::json& options,
                              const nlohmann::json& problem) = 0;
  virtual DeclaredCost cost(const std::string& implementation, const nlohmann::json& options,
                            const nlohmann::json& problem) = 0;

  /// Begins a plan. Collective. Throws the errors of ExternalSession::ask.
  virtual std::unique_ptr<ExternalSession> begin(const RankContext& context,
                                                 PlanRequest request) = 0;

  LearnedCalls& learned_calls() { return learned_calls_; }

 private:
  LearnedCalls learned_calls_;
};

}  // namespace lossgrid
