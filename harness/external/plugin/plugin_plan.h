// SPDX-License-Identifier: Apache-2.0
// `PluginPlan`: a plan of a plugin on one rank: runs its functions on the arrays of an arena and
// answers like a worker (python/PROTOCOL.md). The same code runs in this process and in worker
// processes; they differ in communicators and device. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/device/device_timer.h"
#include "harness/external/plugin/plugin_groups.h"
#include "harness/external/plugin/plugin_library.h"
#include "harness/external/plugin/plugin_memory.h"
#include "harness/external/plugin/plugin_problem.h"
#include "harness/external/plugin/plugin_tensors.h"

namespace lossgrid {

class PluginPlan {
 public:
  /// Calls the plugin's `plan`. The references outlive the object. Throws rank_failed or
  /// not_enough_memory with the plugin's text, or the failure of a collective.
  PluginPlan(const PluginImplementation& implementation, const nlohmann::json& options,
             const nlohmann::json& problem, const PluginArena& arena, Device& device,
             const PluginRanks& ranks);
  /// Calls `destroy` unless end() did.
  ~PluginPlan();
  PluginPlan(const PluginPlan&) = delete;
  PluginPlan& operator=(const PluginPlan&) = delete;

  /// The following functions run a request of the protocol and return its answer. They throw the
  /// errors of the constructor.
  nlohmann::json forward(const nlohmann::json& request);
  nlohmann::json backward(const nlohmann::json& request);
  /// Calls `destroy` and returns the memory that is then still allocated; empty without such
  /// memory. Throws rank_failed.
  std::string end();

 private:
  friend struct PluginContextTable;

  void make_context();
  /// Calls a function of the plugin and rethrows a failure of its collectives.
  template <typename F>
  void call(F&& function);
  /// Runs a phase between barriers and returns its MEASURED.
  template <typename F>
  nlohmann::json measure(const char* phase, const nlohmann::json& request, F&& function);
  nlohmann::json measured(std::int64_t time_ns) const;
  lossgrid_inputs inputs();
  void finish_outputs();
  void* plan_of_backward() const;
  std::vector<std::string> changed() const;

  const PluginImplementation& implementation_;
  Device& device_;
  const PluginRanks ranks_;
  const PluginProblem problem_;
  PluginTensors tensors_;
  PluginMemory memory_;
  PluginGroups groups_;
  const std::unique_ptr<DeviceTimer> timer_;
  lossgrid_context context_{};
  nlohmann::json change_;  // change of the last forward
  void* plan_ = nullptr;
  bool has_plan_ = false;
};

}  // namespace lossgrid
