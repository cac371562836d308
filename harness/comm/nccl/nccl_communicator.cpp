// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/nccl/nccl_communicator.h"

#include <cstdint>
#include <string>
#include <utility>

#include "harness/comm/call_signature.h"
#include "harness/comm/consensus.h"
#include "harness/comm/native_communicator.h"
#include "harness/comm/nccl/nccl_group.h"
#include "harness/comm/reduction.h"
#include "harness/core/error.h"
#include "harness/device/device_work.h"

namespace lossgrid {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::i64:
      return ncclInt64;
    default:
      return ncclInt32;
  }
}

ncclRedOp_t operation_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
    default:
      return ncclSum;
  }
}

/// Returns true for max and min of floating types, in which NCCL would drop a NaN.
bool wants_nan(DType dtype, ReduceOp op) {
  return op != ReduceOp::sum && (dtype == DType::f64 || dtype == DType::f32);
}

/// Throws unsupported, the same on all ranks, if two ranks share a GPU: NCCL would refuse, or hang.
void require_own_gpus(Communicator& inner, const NcclStream& stream) {
  const std::vector<std::string> gpus = gather_texts(inner, stream.gpu());
  for (std::size_t b = 1; b < gpus.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (gpus[a] != gpus[b]) continue;
      throw Error(
          ErrorCode::unsupported,
          fmt::format("NCCL wants a GPU of its own for every rank; ranks {} and {} share {}", a, b,
                      gpus[a]));
    }
  }
}

class NcclCommunicator final : public Communicator, public HasNative {
 public:
  NcclCommunicator(Communicator& inner, NcclStream& stream, const NcclLibrary& nccl)
      : inner_(&inner), stream_(stream), nccl_(nccl), group_(nccl) {}
  NcclCommunicator(std::unique_ptr<Communicator> inner, NcclStream& stream, const NcclLibrary& nccl)
      : NcclCommunicator(*inner, stream, nccl) {
    owned_ = std::move(inner);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }
  NativeCommunicator native() const override { return {"nccl", group_.handle()}; }

  /// Connects the ranks of `inner`, which have no group of NCCL yet.
  void connect() {
    ncclUniqueId id{};
    if (rank() == 0) check_nccl(nccl_, nccl_.get_unique_id(&id), "ncclGetUniqueId");
    inner_->broadcast(id.internal, sizeof(id.internal), DType::u8, 0);
    form([&] { group_.connect(size(), id, rank()); }, group_);
  }

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    if (!goes_over_nccl(count, data, data)) return inner_->all_reduce(data, count, dtype, op);
    require_reducible("all_reduce", dtype);
    const CallSignature call{Collective::all_reduce, count, dtype, op};
    if (wants_nan(dtype, op)) return gather_and_reduce(call, data, count, 0, data);
    transfer(call, [&] {
      launched(nccl_.all_reduce(data, data, count, type_of(dtype), operation_of(op),
                                group_.handle(), stream()));
    });
  }

  void all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    if (!goes_over_nccl(count, send, receive)) {
      return inner_->all_gather(send, receive, count, dtype);
    }
    transfer({Collective::all_gather, count, dtype}, [&] {
      launched(nccl_.all_gather(send, receive, count * size_of(dtype), ncclUint8, group_.handle(),
                                stream()));
    });
  }

  void reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                      ReduceOp op) override {
    if (!goes_over_nccl(count, send, receive)) {
      return inner_->reduce_scatter(send, receive, count, dtype, op);
    }
    require_reducible("reduce_scatter", dtype);
    const CallSignature call{Collective::reduce_scatter, count, dtype, op};
    if (wants_nan(dtype, op)) {
      return gather_and_reduce(call, send, static_cast<std::size_t>(size()) * count,
                               static_cast<std::size_t>(rank()) * count, receive);
    }
    transfer(call, [&] {
      launched(nccl_.reduce_scatter(send, receive, count, type_of(dtype), operation_of(op),
                                    group_.handle(), stream()));
    });
  }

  void broadcast(void* data, std::size_t count, DType dtype, int root) override {
    const bool has_root =
        root >= 0 && root < size();  // else an error of the caller, which inner names
    if (!has_root || !goes_over_nccl(count, data, data)) {
      return inner_->broadcast(data, count, dtype, root);
    }
    transfer({Collective::broadcast, count, dtype, std::nullopt, root}, [&] {
      launched(nccl_.broadcast(data, data, count * size_of(dtype), ncclUint8, root, group_.handle(),
                               stream()));
    });
  }

  /// Runs the barrier of the hosts, which is enough as no kernel is under way.
  void barrier() override {
    stream_.device().synchronise();
    inner_->barrier();
  }

  std::unique_ptr<Communicator> split(int color, int key, std::string name) override {
    auto part = std::make_unique<NcclCommunicator>(inner_->split(color, key, std::move(name)),
                                                   stream_, nccl_);
    if (!nccl_.is_recent()) {
      part->connect();
      return part;
    }
    // NCCL wants colors from 0: the rank of the first member.
    std::int32_t first = rank();
    part->inner_->broadcast(std::span(&first, 1), 0);
    form([&] { part->group_.split_from(group_, first, part->rank()); }, part->group_);
    return part;
  }

  void transfer_external(const CallSignature& call, const std::function<bool()>& advance) override {
    inner_->transfer_external(call, advance);
  }

  /// Ranks that wait for NCCL notice it within the pause of a poll.
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_.device().stream()); }

  void launched(ncclResult_t result) const {
    check_nccl(nccl_, result, "a collective of NCCL");
    count_launch();
  }

  /// Returns true if kernels reach both. Else waits for the kernels, so that the host can read
  /// their output.
  bool goes_over_nccl(std::size_t count, const void* send, const void* receive) const {
    if (count > 0 && stream_.reaches(send) && stream_.reaches(receive)) return true;
    Device& device = stream_.device();
    device.synchronise();
    if (!device.host_reads(send) || !device.host_reads(receive)) {
      throw Error(
          ErrorCode::internal,
          fmt::format("'{}' is given memory of a GPU and memory that no kernel reaches", name()));
    }
    return false;
  }

  /// Runs the rendezvous over `inner`, then calls `advance` until it returns true. Aborts the group
  /// of NCCL on failure.
  void transfer_or_abort(CallSignature call, const std::function<bool()>& advance) {
    call.between_gpus = true;
    try {
      inner_->transfer_external(call, advance);
    } catch (...) {
      group_.abort();
      throw;
    }
  }

  /// Makes `group` by `begin`, which this group has to be ready for too unless it is the same.
  template <typename Begin>
  void form(Begin begin, const NcclGroup& group) {
    bool begun = false;
    transfer_or_abort({}, [&] {
      if (!std::exchange(begun, true)) begin();
      return group_.ready() && group.ready();
    });
  }

  template <typename Launch>
  void transfer(const CallSignature& call, Launch launch) {
    bool begun = false;
    transfer_or_abort(call, [&] {
      if (!std::exchange(begun, true)) launch();
      return group_.ready() && stream_.idle();
    });
  }

  /// Computes out := the reduction of `call` of elements `begin` .. of the sends of all ranks,
  /// `elements` each.
  void gather_and_reduce(const CallSignature& call, const void* send, std::size_t elements,
                         std::size_t begin, void* out) {
    const std::size_t width = size_of(call.dtype);
    const std::size_t bytes = elements * width;
    std::byte* gathered = stream_.scratch(static_cast<std::size_t>(size()) * bytes);
    bool begun = false;
    bool reduced = false;
    transfer_or_abort(call, [&] {
      if (!std::exchange(begun, true)) {
        launched(nccl_.all_gather(send, gathered, bytes, ncclUint8, group_.handle(), stream()));
      }
      if (!group_.ready()) return false;
      if (!std::exchange(reduced, true)) {
        stream_.reduce({gathered + begin * width, size(), elements, call.count, call.dtype},
                       *call.op, out);
      }
      return stream_.idle();
    });
  }

  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
  NcclStream& stream_;
  const NcclLibrary& nccl_;
  NcclGroup group_;
};

}  // namespace

std::unique_ptr<Communicator> over_nccl(Communicator& inner, NcclStream& stream,
                                        const NcclLibrary& nccl) {
  require_own_gpus(inner, stream);
  auto out = std::make_unique<NcclCommunicator>(inner, stream, nccl);
  out->connect();
  return out;
}

std::unique_ptr<Communicator> over_nccl(Communicator& inner, NcclStream& stream) {
  return over_nccl(inner, stream, nccl_library());
}

}  // namespace lossgrid
