// SPDX-License-Identifier: Apache-2.0
// Every call begins with one exchange of slots of a fixed size: the arguments of the call, and its
// payload if it fits. So mismatched calls are found before an exchange of another size. Longer
// payloads follow in parts. Reductions are done here, in rank order, independent of MPI.
#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "harness/comm/call_signature.h"
#include "harness/comm/mpi/mpi_world.h"
#include "harness/comm/native_communicator.h"
#include "harness/comm/reduction.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"

namespace lossgrid {
namespace {

/// Begin of a slot: a CallSignature in numbers.
struct SlotHeader {
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  std::int32_t operation = 0;  // a Collective, or kSplit
  std::int16_t dtype = 0;
  std::int16_t between_gpus = 0;
  std::int32_t op = -1;
  std::int32_t root = -1;
  friend bool operator==(const SlotHeader&, const SlotHeader&) = default;
};
static_assert(sizeof(SlotHeader) % alignof(std::max_align_t) == 0);
constexpr std::int32_t kSplit = kCollectives;

// Up to this size per rank every rank gathers all and reduces it itself: one exchange less.
constexpr std::size_t kGatheredBytes = 8192;

std::string_view name_of_operation(std::int32_t operation) {
  return operation == kSplit ? "split" : name(static_cast<Collective>(operation));
}

CallSignature signature_of(const SlotHeader& header) {
  CallSignature call;
  if (header.operation != kSplit) call.collective = static_cast<Collective>(header.operation);
  call.count = header.count;
  call.dtype = static_cast<DType>(header.dtype);
  if (header.op >= 0) call.op = static_cast<ReduceOp>(header.op);
  if (header.root >= 0) call.root = header.root;
  call.between_gpus = header.between_gpus != 0;
  return call;
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class MpiCommunicator final : public Communicator, public HasNative {
 public:
  MpiCommunicator(std::shared_ptr<MpiWorld> world, MpiGroup group, int rank, std::string name)
      : world_(std::move(world)),
        group_(std::move(group)),
        ranks_(group_.world_ranks.size()),
        rank_(static_cast<std::size_t>(rank)),
        slot_bytes_(std::clamp<std::size_t>(16384 / ranks_ / 64 * 64, 128, 1024)),
        name_(std::move(name)) {}

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(ranks_); }
  std::string_view name() const override { return name_; }
  NativeCommunicator native() const override { return {"mpi", &group_.comm}; }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    require_reducible("all_reduce", dtype);
    const std::size_t width = size_of(dtype);
    auto* bytes = static_cast<std::byte*>(data);
    SlotHeader header = header_of(Collective::all_reduce, count, dtype);
    header.op = static_cast<std::int32_t>(op);
    if (rendezvous(header, data, count * width)) {
      return reduce_in_order(sources_, 0, count, dtype, op, data);
    }
    if (ranks_ == 1) return;
    const std::size_t part = part_elements(width);
    if (count <= part && count * width <= kGatheredBytes) {
      gather_parts(bytes, count * width);
      return reduce_in_order(sources_, 0, count, dtype, op, data);
    }
    for (std::size_t at = 0; at < count; at += ranks_ * part) {
      const std::size_t length = std::min(ranks_ * part, count - at);
      const std::size_t share = (length + ranks_ - 1) / ranks_;  // of a rank; the last ones
      const auto begin = [&](std::size_t r) { return std::min(r * share, length); };  // are shorter
      swap_parts(share * width, [&](std::size_t r, std::byte* to) {
        copy_bytes(to, bytes + (at + begin(r)) * width, (begin(r + 1) - begin(r)) * width);
      });
      std::byte* own = world_->outgoing().at_least(share * width);
      reduce_in_order(sources_, 0, begin(rank_ + 1) - begin(rank_), dtype, op, own);
      gather_parts(own, share * width);
      for (std::size_t r = 0; r < ranks_; ++r) {
        copy_bytes(bytes + (at + begin(r)) * width, sources_[r], (begin(r + 1) - begin(r)) * width);
      }
    }
  }

  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    const std::size_t bytes = count * size_of(dtype);
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(receive);
    const bool done = rendezvous(header_of(Collective::all_gather, count, dtype), send, bytes);
    const auto place = [&](std::size_t at, std::size_t length) {
      for (std::size_t r = 0; r < ranks_; ++r) {
        copy_bytes(to + r * bytes + at, sources_[r], length);
      }
    };
    if (done) return place(0, bytes);
    if (ranks_ == 1) return copy_bytes(to, from, bytes);
    const std::size_t part = part_elements(1);
    for (std::size_t at = 0; at < bytes; at += part) {
      const std::size_t length = std::min(part, bytes - at);
      gather_parts(from + at, length);
      place(at, length);
    }
  }

  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override {
    require_reducible("reduce_scatter", dtype);
    const std::size_t width = size_of(dtype);
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(receive);
    SlotHeader header = header_of(Collective::reduce_scatter, count, dtype);
    header.op = static_cast<std::int32_t>(op);
    if (rendezvous(header, send, ranks_ * count * width)) {
      return reduce_in_order(sources_, rank_ * count, count, dtype, op, receive);
    }
    if (ranks_ == 1) return copy_bytes(to, from, count * width);
    const std::size_t part = part_elements(width);
    for (std::size_t at = 0; at < count; at += part) {
      const std::size_t length = std::min(part, count - at);
      swap_parts(length * width, [&](std::size_t r, std::byte* out) {
        copy_bytes(out, from + (r * count + at) * width, length * width);
      });
      reduce_in_order(sources_, 0, length, dtype, op, to + at * width);
    }
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    if (root < 0 || root >= size()) {
      throw Error(ErrorCode::internal,
                  fmt::format("broadcast from {} in '{}' of {} ranks", root, name_, size()));
    }
    const std::size_t bytes = count * size_of(dtype);
    auto* to = static_cast<std::byte*>(data);
    SlotHeader header = header_of(Collective::broadcast, count, dtype);
    header.root = root;
    const bool at_root = rank() == root;
    if (rendezvous(header, at_root ? data : nullptr, bytes)) {
      if (!at_root) copy_bytes(to, sources_[static_cast<std::size_t>(root)], bytes);
      return;
    }
    if (ranks_ == 1) return;
    const std::size_t part = world_->segment_bytes();
    for (std::size_t at = 0; at < bytes; at += part) {
      const std::size_t length = std::min(part, bytes - at);
      std::byte* staged = world_->outgoing().at_least(length);
      if (at_root) copy_bytes(staged, to + at, length);
      exchange([&](MPI_Request* request) {
        return MPI_Ibcast(staged, static_cast<int>(length), MPI_BYTE, root, group_.comm, request);
      });
      if (!at_root) copy_bytes(to + at, staged, length);
    }
  }

  void barrier() override { rendezvous(header_of(Collective::barrier, 0, DType::u8), nullptr, 0); }

  std::unique_ptr<Communicator> split(int color, int key, std::string name) override {
    const std::array<std::int32_t, 2> own{color, key};
    SlotHeader header = header_of(Collective::barrier, 0, DType::u8);
    header.operation = kSplit;
    rendezvous(header, own.data(), sizeof(own));
    std::vector<std::tuple<int, int>> order;  // (key, rank) of those with the same color
    for (std::size_t r = 0; r < ranks_; ++r) {
      std::array<std::int32_t, 2> theirs;
      std::memcpy(theirs.data(), sources_[r], sizeof(theirs));
      if (theirs[0] == color) order.emplace_back(theirs[1], static_cast<int>(r));
    }
    std::sort(order.begin(), order.end());
    MpiGroup part;
    int place = 0;
    for (const auto& [their_key, r] : order) {
      if (r == rank()) place = static_cast<int>(part.world_ranks.size());
      part.world_ranks.push_back(group_.world_ranks[static_cast<std::size_t>(r)]);
    }
    // MPI wants colors from 0: the first member's rank.
    const int first = std::get<1>(order.front());
    part.comm = world_->split(call("split"), first, place);
    part.id = mix_bits(mix_bits(group_.id + number_) + static_cast<std::uint64_t>(first));
    return std::make_unique<MpiCommunicator>(world_, std::move(part), place, std::move(name));
  }

  void transfer_external(const CallSignature& signature,
                         const std::function<bool()>& advance) override {
    SlotHeader header;
    header.operation =
        signature.collective ? static_cast<std::int32_t>(*signature.collective) : kSplit;
    header.count = signature.count;
    header.dtype = static_cast<std::int16_t>(signature.dtype);
    if (signature.op) header.op = static_cast<std::int32_t>(*signature.op);
    if (signature.root) header.root = *signature.root;
    header.between_gpus = signature.between_gpus ? 1 : 0;
    rendezvous(header, nullptr, 0);
    world_->transfer_external(call(operation_), advance);
  }

  void abort(const std::string& reason) noexcept override { world_->abort(reason); }

 private:
  MpiCall call(std::string_view operation) const { return {group_, name_, number_, operation}; }

  SlotHeader header_of(Collective collective, std::size_t count, DType dtype) const {
    SlotHeader header;
    header.operation = static_cast<std::int32_t>(collective);
    header.count = count;
    header.dtype = static_cast<std::int16_t>(dtype);
    return header;
  }

  /// Returns the elements that a rank receives from every other one in an exchange.
  std::size_t part_elements(std::size_t width) const {
    return std::max<std::size_t>(1, world_->segment_bytes() / ranks_ / width);
  }

  void exchange(const MpiWorld::Start& start) { world_->exchange(call(operation_), start); }

  /// Runs the rendezvous of a call. Returns true if the payloads came along: then `sources_` holds
  /// them, by rank, until the next exchange.
  bool rendezvous(SlotHeader header, const void* payload, std::size_t payload_bytes) {
    header.number = ++number_;
    operation_ = name_of_operation(header.operation);
    const bool fits = payload_bytes <= slot_bytes_ - sizeof(SlotHeader);
    std::byte* own = world_->outgoing_slot().at_least(slot_bytes_);
    std::byte* all = world_->incoming_slots().at_least(ranks_ * slot_bytes_);
    std::memcpy(own, &header, sizeof(header));
    if (fits && payload != nullptr) copy_bytes(own + sizeof(header), payload, payload_bytes);
    const int bytes = static_cast<int>(slot_bytes_);
    exchange([&](MPI_Request* request) {
      return MPI_Iallgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, group_.comm, request);
    });
    require_same_calls(all);
    set_sources(all + sizeof(header), slot_bytes_);
    return fits;
  }

  void require_same_calls(const std::byte* slots) {
    SlotHeader first;
    std::memcpy(&first, slots, sizeof(first));
    for (std::size_t r = 1; r < ranks_; ++r) {
      SlotHeader other;
      std::memcpy(&other, slots + r * slot_bytes_, sizeof(other));
      if (other == first) continue;
      const int culprit = group_.world_ranks[r];
      world_->fail(culprit, describe_mismatch(number_, name_, group_.world_ranks[0],
                                              signature_of(first), culprit, signature_of(other)));
    }
  }

  /// Sets `sources_` to the `bytes` at `own` of every rank.
  void gather_parts(const std::byte* own, std::size_t bytes) {
    std::byte* out = world_->outgoing().at_least(bytes);
    std::byte* in = world_->incoming().at_least(ranks_ * bytes);
    copy_bytes(out, own, bytes);
    const int length = static_cast<int>(bytes);
    exchange([&](MPI_Request* request) {
      return MPI_Iallgather(out, length, MPI_BYTE, in, length, MPI_BYTE, group_.comm, request);
    });
    set_sources(in, bytes);
  }

  /// Sets `sources_` to the `bytes` that every rank has for this one; `pack(r, to)` writes those
  /// for r.
  template <typename Pack>
  void swap_parts(std::size_t bytes, Pack pack) {
    std::byte* out = world_->outgoing().at_least(ranks_ * bytes);
    std::byte* in = world_->incoming().at_least(ranks_ * bytes);
    for (std::size_t r = 0; r < ranks_; ++r) pack(r, out + r * bytes);
    const int length = static_cast<int>(bytes);
    exchange([&](MPI_Request* request) {
      return MPI_Ialltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, group_.comm, request);
    });
    set_sources(in, bytes);
  }

  void set_sources(const std::byte* begin, std::size_t stride) {
    sources_.clear();
    for (std::size_t r = 0; r < ranks_; ++r) sources_.push_back(begin + r * stride);
  }

  const std::shared_ptr<MpiWorld> world_;
  const MpiGroup group_;
  const std::size_t ranks_;
  const std::size_t rank_;
  const std::size_t slot_bytes_;
  const std::string name_;
  std::uint64_t number_ = 0;  // of the call, from 1
  std::string_view operation_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiWorld> world) {
  int rank = 0;
  MPI_Comm_rank(world->group().comm, &rank);
  MpiGroup group = world->group();
  return std::make_unique<MpiCommunicator>(std::move(world), std::move(group), rank, "world");
}

}  // namespace lossgrid
