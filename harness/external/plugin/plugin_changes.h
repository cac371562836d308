// SPDX-License-Identifier: Apache-2.0
// Changes of mutants (python/PROTOCOL.md, Mutants) to the tensors of a plugin; PluginGroups changes
// calls. null changes nothing.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/external/plugin/plugin_tensors.h"

namespace lossgrid {

/// Changes inputs and batch on the device, before a forward.
void change_inputs(const nlohmann::json& change, PluginTensors& tensors);
/// Changes outputs in the arena, after a forward.
void change_outputs(const nlohmann::json& change, PluginTensors& tensors);
/// Changes d loss / d output in the arena, before a backward.
void change_upstream(const nlohmann::json& change, PluginTensors& tensors);
/// Changes gradients in the arena, after a backward.
void change_gradients(const nlohmann::json& change, const lossgrid_problem& problem,
                      PluginTensors& tensors);

}  // namespace lossgrid
