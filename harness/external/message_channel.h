// SPDX-License-Identifier: Apache-2.0
// `MessageChannel`: one end of a stream of messages between this process and a worker
// (python/PROTOCOL.md): JSON in UTF-8 after its length, accompanied by file descriptors. One thread
// uses an object at a time.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "harness/core/process/descriptor.h"

namespace lossgrid {

class MessageChannel {
 public:
  explicit MessageChannel(Descriptor socket) : socket_(std::move(socket)) {}

  /// Sends the whole message. Returns false if the other side is gone.
  bool send(const nlohmann::json& message, std::initializer_list<int> descriptors = {});

  /// Returns the next message; nullopt if it is not complete within `patience`. Throws rank_failed
  /// for bytes that are not a message of the protocol.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds patience);

  /// Returns the descriptors that came with the messages so far.
  std::vector<Descriptor> take_descriptors() { return std::exchange(descriptors_, {}); }

  /// True if the other side has closed the stream.
  bool is_closed() const { return is_closed_; }

 private:
  std::optional<nlohmann::json> take_message();
  /// Receives available bytes. Returns the result of recv.
  ssize_t receive_bytes(std::span<char> bytes);

  Descriptor socket_;
  std::string received_;  // bytes of an incomplete message
  std::vector<Descriptor> descriptors_;
  bool is_closed_ = false;
};

/// Returns two connected ends, both closed by an exec. Throws io.
std::pair<Descriptor, Descriptor> make_socket_pair();

}  // namespace lossgrid
