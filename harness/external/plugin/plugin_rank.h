// SPDX-License-Identifier: Apache-2.0
// The loop of a worker process of plugins (python/PROTOCOL.md, Worker).
#pragma once

#include "harness/external/message_channel.h"
#include "harness/external/plugin/plugin_library.h"

namespace lossgrid {

/// Serves the host of rank `rank` until its stream ends. Plans of `library` share one device.
void serve_plugin_rank(const PluginLibrary& library, MessageChannel& channel, int rank);

}  // namespace lossgrid
