// SPDX-License-Identifier: Apache-2.0
// Questions about a problem that a plugin answers before a plan: support and cost. The answers have
// the form of a launcher's answers (python/PROTOCOL.md). The functions throw rank_failed.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "harness/external/plugin/plugin_library.h"

namespace lossgrid {

/// Returns the reason why a problem is not supported; empty if it is supported.
std::string plugin_refusal(const PluginImplementation& implementation,
                           const nlohmann::json& options, const nlohmann::json& problem);

/// Returns COST on the rank that the problem names.
nlohmann::json plugin_cost(const PluginImplementation& implementation,
                           const nlohmann::json& options, const nlohmann::json& problem);

}  // namespace lossgrid
