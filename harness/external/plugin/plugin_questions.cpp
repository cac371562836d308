// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_questions.h"

#include <array>

#include "harness/external/plugin/plugin_call.h"
#include "harness/external/plugin/plugin_problem.h"

namespace lossgrid {
namespace {

DLDevice read_device(const nlohmann::json& problem) {
  return {problem.at("device") == "cuda" ? kDLCUDA : kDLCPU, 0};
}

nlohmann::json phase_json(const lossgrid_phase_cost& cost) {
  nlohmann::json out{{"peak_bytes", nullptr}, {"calls", nullptr}};
  if (cost.peak_bytes >= 0) out["peak_bytes"] = cost.peak_bytes;
  if (cost.call_count < 0) return out;
  if (cost.call_count > LOSSGRID_MOST_COST_CALLS) {
    throw Error(ErrorCode::rank_failed,
                fmt::format("a cost of {} kinds of calls, at most {} are allowed", cost.call_count,
                            LOSSGRID_MOST_COST_CALLS));
  }
  out["calls"] = nlohmann::json::array();
  for (int k = 0; k < cost.call_count; ++k) {
    const lossgrid_cost_call& call = cost.calls[k];
    if (call.group == nullptr || call.operation == nullptr) {
      throw Error(ErrorCode::rank_failed, "a cost of calls without a group or an operation");
    }
    out["calls"].push_back({{"group", call.group},
                            {"op", call.operation},
                            {"calls", call.calls},
                            {"bytes", call.bytes}});
  }
  return out;
}

}  // namespace

std::string plugin_refusal(const PluginImplementation& implementation,
                           const nlohmann::json& options, const nlohmann::json& problem) {
  const lossgrid_implementation& table = *implementation.table;
  if (table.supports == nullptr) return "";
  const PluginProblem made(implementation, options, problem, {}, read_device(problem));
  std::array<char, 512> reason{};
  call_plugin([&](lossgrid_error* error) {
    return table.supports(table.user, &made.get(), reason.data(), reason.size(), error);
  });
  reason.back() = 0;
  return reason.data();
}

nlohmann::json plugin_cost(const PluginImplementation& implementation,
                           const nlohmann::json& options, const nlohmann::json& problem) {
  const PluginPlace place{problem.value("tp_rank", 0), problem.value("cp_rank", 0), 0};
  const PluginProblem made(implementation, options, problem, place, read_device(problem));
  lossgrid_cost cost{};
  cost.struct_size = sizeof(cost);
  cost.forward.peak_bytes = cost.backward.peak_bytes = -1;
  cost.forward.call_count = cost.backward.call_count = -1;
  const lossgrid_implementation& table = *implementation.table;
  call_plugin(
      [&](lossgrid_error* error) { return table.cost(table.user, &made.get(), &cost, error); });
  return {
      {"ok", true}, {"forward", phase_json(cost.forward)}, {"backward", phase_json(cost.backward)}};
}

}  // namespace lossgrid
