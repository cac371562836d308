// SPDX-License-Identifier: Apache-2.0
// `PluginRuntime`: plugins in this process, on the threads and the devices of the ranks. A plugin
// that crashes ends the process, one that hangs ends the run at its deadline; worker processes
// contain both (plugin_worker.h). Any thread may use it.
#pragma once

#include <memory>

#include "harness/external/external_runtime.h"
#include "harness/external/plugin/plugin_library.h"

namespace lossgrid {

class PluginRuntime final : public ExternalRuntime {
 public:
  explicit PluginRuntime(std::shared_ptr<const PluginLibrary> library)
      : library_(std::move(library)) {}

  std::optional<SkipReason> unsupported(const std::string& implementation,
                                        const nlohmann::json& options,
                                        const nlohmann::json& problem) override;
  /// A plugin has no such function: a declaration of one is not read.
  std::int64_t chunks(const std::string& implementation, const nlohmann::json& options,
                      const nlohmann::json& problem) override;
  DeclaredCost cost(const std::string& implementation, const nlohmann::json& options,
                    const nlohmann::json& problem) override;
  std::unique_ptr<ExternalSession> begin(const RankContext& context, PlanRequest request) override;

 private:
  const std::shared_ptr<const PluginLibrary> library_;
};

}  // namespace lossgrid
