// SPDX-License-Identifier: Apache-2.0
#include "fake_nccl/fake_nccl.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include <nccl.h>

#include "harness/device/emulated_device.h"

using lossgrid::FakeNccl;

using Bytes = std::vector<std::byte>;

/// One collective of a group.
struct Operation {
  std::size_t launched = 0;
  std::vector<Bytes> sent;  // by rank, once its kernel runs
  std::size_t published = 0;
  std::size_t received = 0;
};

/// State shared by the communicators of one group.
struct Group {
  explicit Group(std::size_t ranks) : members(ranks, nullptr) {}
  std::vector<ncclComm*> members;  // by rank; null once aborted
  std::size_t arrived = 0;
  std::size_t splitting = 0;
  std::size_t finalized = 0;
  bool broken = false;  // a member has failed or was aborted: its kernels never end by themselves
  std::vector<std::shared_ptr<Operation>> operations;
};

struct ncclComm {
  std::shared_ptr<Group> group;
  std::size_t rank = 0;
  bool blocking = false;
  ncclResult_t error = ncclSuccess;
  std::size_t launched = 0;
  bool finalized = false;
  // State of a split under way.
  int color = -1;
  int key = 0;
  ncclComm** child = nullptr;
};

namespace {

FakeNccl& fake() {
  static FakeNccl instance;
  return instance;
}

std::mutex mutex;  // guards all groups
std::condition_variable changed;
std::map<std::uint64_t, std::shared_ptr<Group>> connecting;  // by id

ncclComm* join(const std::shared_ptr<Group>& group, std::size_t rank, bool blocking) {
  auto* comm = new ncclComm{group, rank, blocking};
  group->members[rank] = comm;
  ++group->arrived;
  changed.notify_all();
  return comm;
}

std::shared_ptr<Group> group_of(const ncclUniqueId& id, std::size_t ranks) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  std::shared_ptr<Group>& group = connecting[number];
  if (group == nullptr) group = std::make_shared<Group>(ranks);
  return group;
}

/// Completes a split, once the last member of `group` has called it.
void finish_split(Group& group) {
  std::map<int, std::vector<ncclComm*>> parts;
  for (ncclComm* member : group.members) parts[member->color].push_back(member);
  for (auto& [color, members] : parts) {
    std::stable_sort(members.begin(), members.end(),
                     [](const ncclComm* a, const ncclComm* b) { return a->key < b->key; });
    const auto part = std::make_shared<Group>(members.size());
    for (std::size_t r = 0; r < members.size(); ++r) {
      *members[r]->child = join(part, r, false);
      members[r]->child = nullptr;
      ++fake().split;
    }
  }
  group.splitting = 0;
}

bool is_done(const ncclComm& comm) {
  const Group& group = *comm.group;
  if (group.arrived < group.members.size() || comm.child != nullptr) return false;
  if (comm.finalized && group.finalized < group.members.size()) return false;
  if (comm.launched == 0) return true;
  const bool under_way = group.operations[comm.launched - 1]->launched < group.members.size();
  return !under_way && !fake().hangs && !group.broken;
}

template <typename T>
T reduce(T a, T b, ncclRedOp_t op) {
  if (op == ncclSum) return a + b;
  if constexpr (std::is_floating_point_v<T>) {
    return op == ncclMax ? std::fmax(a, b) : std::fmin(a, b);
  } else {
    return op == ncclMax ? std::max(a, b) : std::min(a, b);
  }
}

template <typename T>
void reduce_sent(const std::vector<Bytes>& sent, std::size_t begin, std::size_t count,
                 ncclRedOp_t op, void* out) {
  for (std::size_t i = 0; i < count; ++i) {
    T total{};
    for (std::size_t r = 0; r < sent.size(); ++r) {
      T value;
      std::memcpy(&value, sent[r].data() + (begin + i) * sizeof(T), sizeof(T));
      total = r == 0 ? value : reduce(total, value, op);
    }
    std::memcpy(static_cast<std::byte*>(out) + i * sizeof(T), &total, sizeof(T));
  }
}

void reduce_sent(const std::vector<Bytes>& sent, std::size_t begin, std::size_t count,
                 ncclDataType_t type, ncclRedOp_t op, void* out) {
  switch (type) {
    case ncclFloat64:
      return reduce_sent<double>(sent, begin, count, op, out);
    case ncclFloat32:
      return reduce_sent<float>(sent, begin, count, op, out);
    case ncclInt64:  // sums wrap
      return op == ncclSum ? reduce_sent<std::uint64_t>(sent, begin, count, op, out)
                           : reduce_sent<std::int64_t>(sent, begin, count, op, out);
    default:
      return op == ncclSum ? reduce_sent<std::uint32_t>(sent, begin, count, op, out)
                           : reduce_sent<std::int32_t>(sent, begin, count, op, out);
  }
}

std::size_t bytes_of(ncclDataType_t type) {
  if (type == ncclUint8) return 1;
  return type == ncclFloat64 || type == ncclInt64 ? 8 : 4;
}

/// Launches a kernel that gives the sends of all members, once the kernels of all run, to
/// `receive`.
ncclResult_t launch(ncclComm* comm, const void* send, std::size_t bytes, cudaStream_t stream,
                    std::function<void(const std::vector<Bytes>&)> receive) {
  const std::lock_guard lock(mutex);
  const std::shared_ptr<Group> group = comm->group;
  const std::size_t rank = comm->rank;
  const auto strikes = [&](std::atomic<int>& bad_rank) {
    int wanted = static_cast<int>(rank);
    return group->members.size() > 1 && bad_rank.compare_exchange_strong(wanted, -1);
  };
  if (strikes(fake().refusing_rank)) return ncclInvalidUsage;
  ++fake().collectives;
  if (strikes(fake().failing_rank)) {
    group->broken = true;
    comm->error = ncclRemoteError;
  }
  if (++comm->launched > group->operations.size()) {
    group->operations.push_back(std::make_shared<Operation>());
    group->operations.back()->sent.resize(group->members.size());
  }
  const std::shared_ptr<Operation> operation = group->operations[comm->launched - 1];
  ++operation->launched;
  changed.notify_all();
  auto kernel = [=, receive = std::move(receive)] {
    const auto* begin = static_cast<const std::byte*>(send);
    std::unique_lock lock(mutex);
    if (group->members[rank] == nullptr) return;  // its memory may be freed
    operation->sent[rank].assign(begin, begin + bytes);
    ++operation->published;
    changed.notify_all();
    const auto all_here = [&] { return operation->published == group->members.size(); };
    changed.wait(lock, [&] { return (all_here() && !fake().hangs) || group->broken; });
    if (!all_here() || fake().hangs) return;
    receive(operation->sent);
    if (++operation->received == group->members.size()) operation->sent.clear();
  };
  reinterpret_cast<lossgrid::EmulatedStream*>(stream)->launch(std::move(kernel));
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

}  // namespace

extern "C" {

FakeNccl* lossgrid_fake_nccl() {
  return &fake();
}

int lossgrid_nccl_emulation = 1;

ncclResult_t ncclGetVersion(int* version) {
  *version = fake().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<std::uint64_t> ids{0};
  const std::uint64_t number = ++ids;
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  std::unique_lock lock(mutex);
  const std::shared_ptr<Group> group = group_of(id, static_cast<std::size_t>(ranks));
  *comm = join(group, static_cast<std::size_t>(rank), true);
  ++fake().connected;
  changed.wait(lock, [&] { return group->arrived == group->members.size(); });
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(mutex);
  *comm =
      join(group_of(id, static_cast<std::size_t>(ranks)), static_cast<std::size_t>(rank), false);
  ++fake().connected;
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t*) {
  if (color < 0) return ncclInvalidArgument;
  const std::lock_guard lock(mutex);
  comm->color = color;
  comm->key = key;
  comm->child = child;
  Group& group = *comm->group;
  if (++group.splitting == group.members.size() && !group.broken) finish_split(group);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  *state = comm->error;
  if (*state == ncclSuccess && !comm->blocking && !is_done(*comm)) *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  comm->finalized = true;
  ++comm->group->finalized;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  ++fake().destroyed;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  ++fake().aborted;
  comm->group->members[comm->rank] = nullptr;
  comm->group->broken = true;
  changed.notify_all();
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "invalid usage";
}

const char* ncclGetLastError(ncclComm_t) {
  return "said the fake";
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return launch(comm, send, count * bytes_of(type), stream, [=](const std::vector<Bytes>& sent) {
    reduce_sent(sent, 0, count, type, op, receive);
  });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t rank = comm->rank;
  return launch(comm, send, comm->group->members.size() * count * bytes_of(type), stream,
                [=](const std::vector<Bytes>& sent) {
                  reduce_sent(sent, rank * count, count, type, op, receive);
                });
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  return launch(comm, send, bytes, stream, [=](const std::vector<Bytes>& sent) {
    for (std::size_t r = 0; r < sent.size(); ++r) {
      std::memcpy(static_cast<std::byte*>(receive) + r * bytes, sent[r].data(), bytes);
    }
  });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  return launch(comm, send, bytes, stream, [=](const std::vector<Bytes>& sent) {
    std::memcpy(receive, sent[static_cast<std::size_t>(root)].data(), bytes);
  });
}

}  // extern "C"
