// SPDX-License-Identifier: Apache-2.0
#include "harness/external/message_channel.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kMostBytes = 64u << 20;

std::string framed(const nlohmann::json& message) {
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string frame;
  for (std::size_t k = 0; k < kLengthBytes; ++k) {
    frame += static_cast<char>(length >> (8 * k) & 0xff);
  }
  return frame + text;
}

std::uint32_t frame_length(const std::string& frame) {
  std::uint32_t length = 0;
  for (std::size_t k = 0; k < kLengthBytes; ++k) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(frame[k])) << (8 * k);
  }
  return length;
}

}  // namespace

bool MessageChannel::send(const nlohmann::json& message, std::initializer_list<int> descriptors) {
  const std::string frame = framed(message);
  std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()), '\0');
  for (std::size_t sent = 0; sent < frame.size();) {
    iovec data{const_cast<char*>(frame.data()) + sent, frame.size() - sent};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (sent == 0 && descriptors.size() > 0) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* entry = CMSG_FIRSTHDR(&header);
      entry->cmsg_level = SOL_SOCKET;
      entry->cmsg_type = SCM_RIGHTS;
      entry->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
      std::memcpy(CMSG_DATA(entry), descriptors.begin(), sizeof(int) * descriptors.size());
    }
    const ssize_t count = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      is_closed_ = true;
      return false;
    }
  }
  return true;
}

std::optional<nlohmann::json> MessageChannel::take_message() {
  if (received_.size() < kLengthBytes) return std::nullopt;
  const std::uint32_t length = frame_length(received_);
  if (length > kMostBytes) {
    throw Error(ErrorCode::rank_failed, fmt::format("a worker sent a message of {} bytes, at most "
                                                    "{} are allowed",
                                                    length, kMostBytes));
  }
  if (received_.size() < kLengthBytes + length) return std::nullopt;
  nlohmann::json message = nlohmann::json::parse(
      received_.begin() + kLengthBytes, received_.begin() + kLengthBytes + length, nullptr, false);
  received_.erase(0, kLengthBytes + length);
  if (!message.is_object()) {
    throw Error(ErrorCode::rank_failed, "a worker sent a message that is no JSON object");
  }
  return message;
}

ssize_t MessageChannel::receive_bytes(std::span<char> bytes) {
  constexpr std::size_t kMostDescriptors = 8;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control;
  iovec data{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t count = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  if (count <= 0) return count;
  for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr;
       entry = CMSG_NXTHDR(&header, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t descriptors = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t k = 0; k < descriptors; ++k) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(entry) + k * sizeof(int), sizeof(int));
      descriptors_.emplace_back(value);
    }
  }
  return count;
}

std::optional<nlohmann::json> MessageChannel::receive(std::chrono::milliseconds patience) {
  using std::chrono::steady_clock;
  const steady_clock::time_point end = steady_clock::now() + patience;
  for (;;) {
    if (auto message = take_message()) return message;
    if (is_closed_) return std::nullopt;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now()).count();
    pollfd wait{socket_.get(), POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready == 0) return std::nullopt;
    if (ready < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorCode::io, std::generic_category().message(errno));
    }
    std::array<char, 65536> bytes;
    const ssize_t count = receive_bytes(bytes);
    if (count > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      is_closed_ = true;
    }
  }
}

std::pair<Descriptor, Descriptor> make_socket_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(ErrorCode::io,
                fmt::format("no socket pair: {}", std::generic_category().message(errno)));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace lossgrid
