// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_runtime.h"

#include <utility>

#include "harness/core/error.h"
#include "harness/external/host_calls.h"
#include "harness/external/plugin/plugin_plan.h"
#include "harness/external/plugin/plugin_questions.h"

namespace lossgrid {
namespace {

/// Calls f() and adds `doing` to an error of the plugin. Failures of collectives and of other ranks
/// pass unchanged.
template <typename F>
auto named(const std::string& doing, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    const bool is_own =
        error.cause() == Cause::unknown &&
        (error.code() == ErrorCode::rank_failed || error.code() == ErrorCode::not_enough_memory);
    if (!is_own) throw;
    throw Error(error.code(), fmt::format("{}: {}", doing, error.what()));
  }
}

class PluginSession final : public ExternalSession {
 public:
  PluginSession(const PluginImplementation& implementation, const RankContext& context,
                const PlanRequest& request)
      : dp_(split_dp(context.stage, context.tp.size() * context.cp.size())) {
    named(fmt::format("plan of '{}'", request.implementation), [&] {
      plan_ = std::make_unique<PluginPlan>(
          implementation, request.options, request.problem,
          PluginArena{request.arrays.memory(), request.arrays.list()}, context.device,
          PluginRanks{context.tp, context.cp, *dp_, context.stage});
    });
  }

  nlohmann::json ask(const nlohmann::json& request, const std::string& doing) override {
    const bool is_forward = request.at("op") == "forward";
    return named(doing,
                 [&] { return is_forward ? plan_->forward(request) : plan_->backward(request); });
  }

  std::optional<std::string> end() override {
    return named("destroy", [&] { return plan_->end(); });
  }

 private:
  const std::unique_ptr<Communicator> dp_;
  std::unique_ptr<PluginPlan> plan_;
};

}  // namespace

std::optional<SkipReason> PluginRuntime::unsupported(const std::string& implementation,
                                                     const nlohmann::json& options,
                                                     const nlohmann::json& problem) {
  const std::string reason = named(fmt::format("supports of '{}'", implementation), [&] {
    return plugin_refusal(library_->find(implementation), options, problem);
  });
  return reason.empty() ? std::nullopt : std::optional(SkipReason{reason});
}

std::int64_t PluginRuntime::chunks(const std::string& /*implementation*/,
                                   const nlohmann::json& /*options*/,
                                   const nlohmann::json& /*problem*/) {
  return 0;
}

DeclaredCost PluginRuntime::cost(const std::string& implementation, const nlohmann::json& options,
                                 const nlohmann::json& problem) {
  return named(fmt::format("cost of '{}'", implementation), [&] {
    return declared_cost_from(plugin_cost(library_->find(implementation), options, problem));
  });
}

std::unique_ptr<ExternalSession> PluginRuntime::begin(const RankContext& context,
                                                      PlanRequest request) {
  return std::make_unique<PluginSession>(library_->find(request.implementation), context, request);
}

}  // namespace lossgrid
