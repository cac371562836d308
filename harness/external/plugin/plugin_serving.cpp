// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_serving.h"

#include <chrono>
#include <optional>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

nlohmann::json error_answer(const Error& error) {
  const char* kind = error.code() == ErrorCode::not_enough_memory ? "out_of_memory"
                     : error.code() == ErrorCode::bad_input       ? "bad_input"
                                                                  : "error";
  return {{"ok", false}, {"kind", kind}, {"error", error.what()}, {"traceback", ""}};
}

}  // namespace

void serve_plugins(MessageChannel& channel, const PluginOperations& operations) {
  while (!channel.is_closed()) {
    const std::optional<nlohmann::json> request = channel.receive(std::chrono::hours(1));
    if (!request) continue;
    nlohmann::json answer;
    try {
      const std::string op = request->value("op", "");
      const auto operation = operations.find(op);
      if (operation == operations.end()) {
        throw Error(ErrorCode::rank_failed, fmt::format("no operation '{}'", op));
      }
      answer = operation->second(*request, channel.take_descriptors());
    } catch (const Error& error) {
      answer = error_answer(error);
    } catch (const nlohmann::json::exception& error) {
      answer = error_answer(Error(ErrorCode::rank_failed, error.what()));
    }
    channel.send(answer);
  }
}

}  // namespace lossgrid
