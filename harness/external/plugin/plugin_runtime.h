// SPDX-License-Identifier: Apache-2.0
// `PluginRuntime`: plugins in this process, on the threads and the devices of the ranks. A crash of
// a plugin ends the process, and a hanging plugin ends the run at its deadline; worker processes
// contain both failures (plugin_worker.h). Any thread may use it.
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
  /// Plugins have no such function; a declaration of the function is not read.
  std::int64_t chunks(const std::string& implementation, const nlohmann::json& options,
                      const nlohmann::json& problem) override;
  DeclaredCost cost(const std::string& implementation, const nlohmann::json& options,
                    const nlohmann::json& problem) override;
  std::unique_ptr<ExternalSession> begin(const RankContext& context, PlanRequest request) override;

 private:
  const std::shared_ptr<const PluginLibrary> library_;
};

}  // namespace lossgrid
