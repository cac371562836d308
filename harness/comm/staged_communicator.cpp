// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/staged_communicator.h"

#include "harness/comm/native_communicator.h"
#include "harness/core/error.h"
#include "harness/device/memory/staging.h"

namespace lossgrid {
namespace {

class StagedCommunicator final : public Communicator, public HasNative {
 public:
  StagedCommunicator(Communicator& inner, Device& device)
      : inner_(inner), device_(device), sent_(device), received_(device) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string_view name() const override { return inner_.name(); }
  NativeCommunicator native() const override { return native_of(inner_); }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    const std::size_t bytes = count * size_of(dtype);
    void* staged = receive_for(data, bytes);
    if (stays(data, staged)) return inner_.all_reduce(staged, count, dtype, op);
    if (staged != data) device_.copy(staged, data, bytes);
    inner_.all_reduce(staged, count, dtype, op);
    deliver(data, staged, bytes);
  }
  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    const std::size_t bytes = count * size_of(dtype) * static_cast<std::size_t>(size());
    void* staged = receive_for(receive, bytes);
    if (stays(receive, staged)) {
      inner_.all_gather(staged, staged, count, dtype);
      if (receive != send) device_.copy(receive, send, bytes);
      return;
    }
    inner_.all_gather(send_for(send, count * size_of(dtype)), staged, count, dtype);
    deliver(receive, staged, bytes);
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override {
    const std::size_t bytes = count * size_of(dtype);
    void* staged = receive_for(receive, bytes);
    inner_.reduce_scatter(send_for(send, bytes * static_cast<std::size_t>(size())), staged, count,
                          dtype, op);
    deliver(receive, staged, bytes);
  }
  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    const std::size_t bytes = count * size_of(dtype);
    void* staged = receive_for(data, bytes);
    if (stays(data, staged)) return inner_.broadcast(staged, count, dtype, root);
    if (staged != data && rank() == root) device_.copy(staged, data, bytes);
    inner_.broadcast(staged, count, dtype, root);
    deliver(data, staged, bytes);
  }
  void barrier() override {
    device_.synchronise();
    inner_.barrier();
  }
  std::unique_ptr<Communicator> split(int /*color*/, int /*key*/, std::string /*name*/) override {
    throw Error(ErrorCode::internal, "groups are split before their payloads are staged");
  }
  void transfer_external(const CallSignature& call, const std::function<bool()>& advance) override {
    inner_.transfer_external(call, advance);
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  /// True for device memory of a rank that is alone in the group: the payload need not come to the
  /// host, and `inner` has the call with what stands in `staged`.
  bool stays(const void* memory, const void* staged) const {
    return size() == 1 && staged != memory;
  }
  const void* send_for(const void* memory, std::size_t bytes) {
    device_.synchronise();
    if (device_.host_reads(memory)) return memory;
    std::byte* staged = sent_.at_least(bytes);
    device_.copy(staged, memory, bytes);
    return staged;
  }
  /// Returns host memory for a payload that is to arrive at `memory`.
  void* receive_for(void* memory, std::size_t bytes) {
    device_.synchronise();
    return device_.host_reads(memory) ? memory : received_.at_least(bytes);
  }
  void deliver(void* memory, const void* staged, std::size_t bytes) {
    if (staged != memory) device_.copy(memory, staged, bytes);
  }

  Communicator& inner_;
  Device& device_;
  Staging sent_;
  Staging received_;
};

}  // namespace

std::unique_ptr<Communicator> stage_payloads(Communicator& inner, Device& device) {
  return std::make_unique<StagedCommunicator>(inner, device);
}

}  // namespace lossgrid
