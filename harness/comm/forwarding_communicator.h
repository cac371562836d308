// SPDX-License-Identifier: Apache-2.0
// ForwardingCommunicator: the common part of decorators. Forwards every call to an inner
// communicator, with a call of `before` in front of each collective and of `after` behind it.
// `split` and `abort` are no collectives in this sense; a split group is decorated like its parent.
// Adds no synchronisation. Memory that a transport takes from the heap is no implementation's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "harness/comm/call_signature.h"
#include "harness/comm/communicator.h"
#include "harness/comm/native_communicator.h"
#include "harness/core/process/heap_watch.h"

namespace lossgrid {

class ForwardingCommunicator : public Communicator, public HasNative {
 public:
  /// `inner` outlives the object.
  explicit ForwardingCommunicator(Communicator& inner) : inner_(&inner) {}
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner)
      : owned_(std::move(inner)), inner_(owned_.get()) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }
  NativeCommunicator native() const override { return native_of(*inner_); }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    call(Collective::all_reduce, count * size_of(dtype),
         [&] { inner_->all_reduce(data, count, dtype, op); });
  }
  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    call(Collective::all_gather, count * size_of(dtype),
         [&] { inner_->all_gather(send, receive, count, dtype); });
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override {
    call(Collective::reduce_scatter, static_cast<std::size_t>(size()) * count * size_of(dtype),
         [&] { inner_->reduce_scatter(send, receive, count, dtype, op); });
  }
  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    call(Collective::broadcast, count * size_of(dtype),
         [&] { inner_->broadcast(data, count, dtype, root); });
  }
  void barrier() override {
    call(Collective::barrier, 0, [&] { inner_->barrier(); });
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string name) override {
    return decorate(inner_->split(color, key, std::move(name)));
  }
  void transfer_external(const CallSignature& call, const std::function<bool()>& advance) override {
    if (!call.collective) return inner_->transfer_external(call, advance);
    const bool sends_to_each = call.collective == Collective::reduce_scatter;
    const std::size_t parts = sends_to_each ? static_cast<std::size_t>(size()) : 1;
    before(*call.collective, parts * call.count * size_of(call.dtype));
    inner_->transfer_external(call, advance);
    after(*call.collective);
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 protected:
  /// Called before `collective`; `payload_bytes` are those of its tensor argument.
  virtual void before(Collective collective, std::size_t payload_bytes) = 0;
  /// Called after a collective that did not throw.
  virtual void after(Collective /*collective*/) {}
  /// Makes the same decoration around a split group.
  virtual std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> inner) = 0;

 private:
  template <typename F>
  void call(Collective collective, std::size_t payload_bytes, F&& forward) {
    const HeapWatchScope unwatched(nullptr);
    before(collective, payload_bytes);
    forward();
    after(collective);
  }

  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
};

}  // namespace lossgrid
