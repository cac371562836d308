// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/thread/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "harness/comm/reduction.h"
#include "harness/comm/thread/thread_world.h"

namespace lossgrid {
namespace {

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank, std::string name)
      : group_(std::move(group)), rank_(rank), name_(std::move(name)) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string_view name() const override { return name_; }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    ThreadCall call = make_call(Collective::all_reduce, count, dtype);
    require_reducible(operation(call), dtype);
    call.op = op;
    call.send_bytes = count * size_of(dtype);
    call.send = static_cast<const std::byte*>(data);
    call.receive = static_cast<std::byte*>(data);
    if (is_staged(call)) {
      const std::uint64_t round = group_->rendezvous(rank_, call);
      return copy_bytes(data, group_->reduced(round), call.send_bytes);
    }
    exchange(call, [&](Sources sources) { reduce_shared(sources, count, dtype, op); });
  }

  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    ThreadCall call = make_call(Collective::all_gather, count, dtype);
    call.send_bytes = count * size_of(dtype);
    call.send = static_cast<const std::byte*>(send);
    exchange(call, [&](Sources sources) {
      for (std::size_t r = 0; r < sources.size(); ++r) {
        std::byte* part = static_cast<std::byte*>(receive) + r * call.send_bytes;
        // A send inside of `receive` is in its place already, and peers read it.
        if (part != send) copy_bytes(part, sources[r], call.send_bytes);
      }
    });
  }

  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override {
    ThreadCall call = make_call(Collective::reduce_scatter, count, dtype);
    require_reducible(operation(call), dtype);
    call.op = op;
    call.send_bytes = static_cast<std::size_t>(size()) * count * size_of(dtype);
    call.send = static_cast<const std::byte*>(send);
    exchange(call, [&](Sources sources) {
      reduce_in_order(sources, static_cast<std::size_t>(rank_) * count, count, dtype, op, receive);
    });
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    ThreadCall call = make_call(Collective::broadcast, count, dtype);
    if (root < 0 || root >= size()) {
      throw Error(ErrorCode::internal,
                  fmt::format("broadcast from {} in '{}' of {} ranks", root, name_, size()));
    }
    call.root = root;
    call.send_bytes = count * size_of(dtype);
    if (rank_ == root) call.send = static_cast<const std::byte*>(data);
    exchange(call, [&](Sources sources) {
      if (rank_ != root) copy_bytes(data, sources[static_cast<std::size_t>(root)], call.send_bytes);
    });
  }

  void barrier() override {
    group_->rendezvous(rank_, make_call(Collective::barrier, 0, DType::u8));
  }

  std::unique_ptr<Communicator> split(int color, int key, std::string name) override {
    const SplitChoice own{color, key};
    ThreadCall call = make_call(Collective::barrier, 2, DType::i32);
    call.collective.reset();
    call.send_bytes = sizeof(own);
    call.send = reinterpret_cast<const std::byte*>(&own);
    const std::uint64_t round = group_->rendezvous(rank_, call);
    ThreadGroup::SplitPlace place = group_->take_place(round, rank_);
    return make_thread_communicator(std::move(place.group), place.rank, std::move(name));
  }

  void transfer_external(const CallSignature& call, const std::function<bool()>& advance) override {
    ThreadCall own;
    static_cast<CallSignature&>(own) = call;
    own.communicator = name_;
    group_->rendezvous(rank_, own);
    group_->transfer_external(rank_, own, advance);
  }

  void abort(const std::string& reason) noexcept override {
    const int culprit = group_->world_rank(rank_);
    group_->world().fail(culprit, fmt::format("rank {} aborted the run: {}", culprit, reason));
  }

 private:
  using Sources = std::span<const std::byte* const>;

  static bool is_staged(const ThreadCall& call) { return call.send_bytes <= kStagedBytes; }

  ThreadCall make_call(Collective collective, std::size_t count, DType dtype) const {
    ThreadCall call;
    call.collective = collective;
    call.communicator = name_;
    call.count = count;
    call.dtype = dtype;
    return call;
  }

  /// Runs a rendezvous and calls `finish(payloads by rank)`, which throws nothing.
  template <typename F>
  void exchange(const ThreadCall& call, F finish) {
    const std::uint64_t round = group_->rendezvous(rank_, call);
    finish(group_->sources(round));
    if (!is_staged(call)) group_->leave_round();
  }

  /// Reduces this rank's segment and writes the result to the same place on all ranks. Segments are
  /// disjoint, so no rank reads where another one writes. A rank alone has its sum already.
  void reduce_shared(Sources sources, std::size_t count, DType dtype, ReduceOp op) {
    if (size() == 1) return;
    constexpr std::size_t kGranule = 64;  // elements: keeps segments off each other's cache lines
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t granules = (count + kGranule - 1) / kGranule;
    const std::size_t segment = (granules + ranks - 1) / ranks * kGranule;
    const std::size_t begin = std::min(static_cast<std::size_t>(rank_) * segment, count);
    const std::size_t length = std::min(segment, count - begin);
    const std::size_t offset = begin * size_of(dtype);
    std::byte* result = group_->peer(rank_).receive + offset;
    reduce_in_order(sources, begin, length, dtype, op, result);
    for (int r = 0; r < size(); ++r) {
      copy_bytes(group_->peer(r).receive + offset, result, length * size_of(dtype));
    }
  }

  const std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Communicator> make_thread_communicator(std::shared_ptr<ThreadGroup> group, int rank,
                                                       std::string name) {
  return std::make_unique<ThreadCommunicator>(std::move(group), rank, std::move(name));
}

}  // namespace lossgrid
