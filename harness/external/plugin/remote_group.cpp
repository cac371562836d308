// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/remote_group.h"

#include <chrono>
#include <optional>

#include "harness/core/error.h"

namespace lossgrid {

void RemoteGroup::make(Collective collective, std::size_t count, DType dtype, ReduceOp op, int root,
                       const void* send, std::size_t sent, void* receive, std::size_t place,
                       std::size_t received) {
  std::byte* const memory =
      payloads_.extend(static_cast<std::size_t>(size_ + 1) * count * size_of(dtype));
  device_.synchronise();
  if (sent > 0) device_.copy(memory, send, sent);
  channel_.send({{"call", lossgrid::name(collective)},
                 {"group", name_},
                 {"count", count},
                 {"dtype", lossgrid::name(dtype)},
                 {"reduce", lossgrid::name(op)},
                 {"root", root}});
  std::optional<nlohmann::json> answer;
  while (!answer && !channel_.is_closed()) answer = channel_.receive(std::chrono::hours(1));
  if (!answer || !answer->value("ok", false)) {
    throw Error(ErrorCode::aborted, "the host has ended the run");
  }
  if (received > 0) device_.copy(receive, memory + place, received);
}

void RemoteGroup::all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) {
  const std::size_t bytes = count * size_of(dtype);
  make(Collective::all_reduce, count, dtype, op, 0, data, bytes, data, 0, bytes);
}

void RemoteGroup::all_gather(const void* send, void* receive, std::size_t count, DType dtype) {
  const std::size_t bytes = count * size_of(dtype);
  make(Collective::all_gather, count, dtype, ReduceOp::sum, 0, send, bytes, receive, bytes,
       bytes * static_cast<std::size_t>(size_));
}

void RemoteGroup::reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                                 ReduceOp op) {
  const std::size_t bytes = count * size_of(dtype);
  const std::size_t all = bytes * static_cast<std::size_t>(size_);
  make(Collective::reduce_scatter, count, dtype, op, 0, send, all, receive, all, bytes);
}

void RemoteGroup::broadcast(void* data, std::size_t count, DType dtype, int root) {
  const std::size_t bytes = count * size_of(dtype);
  make(Collective::broadcast, count, dtype, ReduceOp::sum, root, data, bytes, data, 0, bytes);
}

void RemoteGroup::barrier() {
  make(Collective::barrier, 0, DType::u8, ReduceOp::sum, 0, nullptr, 0, nullptr, 0, 0);
}

std::unique_ptr<Communicator> RemoteGroup::split(int /*color*/, int /*key*/, std::string name) {
  throw Error(ErrorCode::internal, fmt::format("a worker cannot split off '{}'", name));
}

void RemoteGroup::transfer_external(const CallSignature& /*call*/,
                                    const std::function<bool()>& /*advance*/) {
  throw Error(ErrorCode::internal, "a worker has no transfers");
}

}  // namespace lossgrid
