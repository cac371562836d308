// SPDX-License-Identifier: Apache-2.0
// Decorator of record_calls(). Not a ForwardingCommunicator, since a record holds all arguments of
// a call and includes splits. Reports the same calls to the observer of the thread.
#include <utility>

#include "harness/comm/call_signature.h"
#include "harness/comm/faults/flight_recorder.h"
#include "harness/comm/native_communicator.h"
#include "harness/core/rank_observer.h"

namespace lossgrid {
namespace {

class RecordedCommunicator final : public Communicator, public HasNative {
 public:
  RecordedCommunicator(Communicator& inner, FlightRecorder& recorder)
      : inner_(&inner), recorder_(&recorder) {}
  RecordedCommunicator(std::unique_ptr<Communicator> inner, FlightRecorder& recorder)
      : owned_(std::move(inner)), inner_(owned_.get()), recorder_(&recorder) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }
  NativeCommunicator native() const override { return native_of(*inner_); }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    enter(Collective::all_reduce, count, dtype, op);
    inner_->all_reduce(data, count, dtype, op);
    leave();
  }
  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    enter(Collective::all_gather, count, dtype);
    inner_->all_gather(send, receive, count, dtype);
    leave();
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override {
    enter(Collective::reduce_scatter, count, dtype, op);
    inner_->reduce_scatter(send, receive, count, dtype, op);
    leave();
  }
  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    enter(Collective::broadcast, count, dtype, std::nullopt, root);
    inner_->broadcast(data, count, dtype, root);
    leave();
  }
  void barrier() override {
    enter(Collective::barrier, 0, DType::u8);
    inner_->barrier();
    leave();
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string name) override {
    enter(std::nullopt, 0, DType::u8);
    auto part = inner_->split(color, key, std::move(name));
    leave();
    return std::make_unique<RecordedCommunicator>(std::move(part), *recorder_);
  }
  void transfer_external(const CallSignature& call, const std::function<bool()>& advance) override {
    enter(call.collective, call.count, call.dtype, call.op, call.root);
    inner_->transfer_external(call, advance);
    leave();
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  void enter(std::optional<Collective> operation, std::size_t count, DType dtype,
             std::optional<ReduceOp> op = std::nullopt, std::optional<int> root = std::nullopt) {
    recorder_->enter(operation, count, dtype, op, root, ++number_, inner_->name());
    if (RankObserver* observer = rank_observer()) report(*observer, operation, count, dtype);
  }

  void leave() {
    recorder_->leave();
    if (RankObserver* observer = rank_observer()) observer->leave_call();
  }

  void report(RankObserver& observer, std::optional<Collective> operation, std::size_t count,
              DType dtype) const {
    const bool sends_to_each = operation == Collective::reduce_scatter;
    const std::size_t parts = sends_to_each ? static_cast<std::size_t>(size()) : 1;
    observer.enter_call({operation ? lossgrid::name(*operation) : "split", inner_->name(),
                         inner_->size(), number_, lossgrid::name(dtype), count,
                         parts * count * size_of(dtype)});
  }

  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
  FlightRecorder* recorder_;
  std::uint64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> record_calls(Communicator& inner, FlightRecorder& recorder) {
  return std::make_unique<RecordedCommunicator>(inner, recorder);
}

}  // namespace lossgrid
