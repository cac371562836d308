// SPDX-License-Identifier: Apache-2.0
// `RemoteGroup`: the communicator of a plugin in a worker process: asks the host of its rank to
// make each collective, with the payload in a memory file (python/PROTOCOL.md, Collectives by the
// host). One thread, one call at a time.
#pragma once

#include <memory>
#include <string>

#include "harness/comm/native_communicator.h"
#include "harness/device/device.h"
#include "harness/external/host_calls.h"
#include "harness/external/message_channel.h"

namespace lossgrid {

class RemoteGroup final : public Communicator, public HasNative {
 public:
  /// The references outlive the object.
  RemoteGroup(MessageChannel& channel, PayloadFile& payloads, Device& device, std::string name,
              int rank, int size)
      : channel_(channel),
        payloads_(payloads),
        device_(device),
        name_(std::move(name)),
        rank_(rank),
        size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return name_; }
  NativeCommunicator native() const override { return {"host", nullptr}; }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override;
  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override;
  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override;
  void broadcast(void* data, std::size_t count, DType dtype, int root) override;
  void barrier() override;
  /// The following functions throw internal, because a plugin never calls them.
  std::unique_ptr<Communicator> split(int color, int key, std::string name) override;
  void transfer_external(const CallSignature& call, const std::function<bool()>& advance) override;
  /// Does nothing: the host ends a worker whose plan failed.
  void abort(const std::string& /*reason*/) noexcept override {}

 private:
  /// Makes a call: sends `sent` bytes and receives `received` bytes, which begin at `place` in the
  /// payloads.
  void make(Collective collective, std::size_t count, DType dtype, ReduceOp op, int root,
            const void* send, std::size_t sent, void* receive, std::size_t place,
            std::size_t received);

  MessageChannel& channel_;
  PayloadFile& payloads_;
  Device& device_;
  const std::string name_;
  const int rank_;
  const int size_;
};

}  // namespace lossgrid
