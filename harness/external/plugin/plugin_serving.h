// SPDX-License-Identifier: Apache-2.0
// Answers of a process that serves requests of python/PROTOCOL.md for plugins: a launcher or a
// worker.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/external/message_channel.h"

namespace lossgrid {

/// Operations by name. An operation takes a request and its descriptors, and returns the answer. An
/// Error becomes an answer with "ok": false.
using PluginOperations =
    std::map<std::string, std::function<nlohmann::json(const nlohmann::json& request,
                                                       std::vector<Descriptor> descriptors)>>;

/// Answers requests until the stream ends.
void serve_plugins(MessageChannel& channel, const PluginOperations& operations);

}  // namespace lossgrid
