// SPDX-License-Identifier: Apache-2.0
// Collectives over NCCL have the bits of collectives on threads, as far as the order of a library
// that adds in rank order allows.
#include "harness/comm/nccl/nccl_communicator.h"

#include <array>
#include <mutex>
#include <set>

#include <gmock/gmock.h>

#include "comm/collective_log.h"
#include "harness/comm/process_grid.h"
#include "harness/core/error.h"
#include "nccl_ranks.h"
#include "ranks.h"

namespace lossgrid {
namespace {

constexpr int kBeforeSplit = 21703;

using testing::HasSubstr;

/// Returns the log of `work` on every rank.
std::vector<Log> logs_of(int ranks, const std::function<Log(Communicator&)>& work,
                         const NcclLibrary* nccl) {
  std::vector<Log> logs(static_cast<std::size_t>(ranks));
  const auto body = [&](Communicator& comm) {
    logs[static_cast<std::size_t>(comm.rank())] = work(comm);
  };
  expect_ranks_ok(ranks, nccl == nullptr ? body : on_nccl(*nccl, body));
  return logs;
}

void expect_same_as_threads(int ranks, const std::function<Log(Communicator&)>& work,
                            const NcclLibrary& nccl) {
  const std::vector<Log> wanted = logs_of(ranks, work, nullptr);
  const std::vector<Log> got = logs_of(ranks, work, &nccl);
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    ASSERT_EQ(got[r].names(), wanted[r].names());
    for (std::size_t i = 0; i < wanted[r].names().size(); ++i) {
      EXPECT_EQ(got[r].digests()[i], wanted[r].digests()[i])
          << wanted[r].names()[i] << ", rank " << r << " of " << ranks;
    }
  }
}

class NcclVersions : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, NcclVersions, testing::Values(NCCL_VERSION_CODE, kBeforeSplit));

TEST_P(NcclVersions, HaveTheBitsOfThreads) {
  const NcclLibrary nccl = fresh_nccl(GetParam());
  expect_same_as_threads(4, log_all, nccl);
  EXPECT_GT(fake_nccl().collectives, 0);
  EXPECT_EQ(fake_nccl().connected, 4);
  EXPECT_EQ(fake_nccl().destroyed, 4);
  EXPECT_EQ(fake_nccl().aborted, 0);
}

TEST_P(NcclVersions, SplitIntoTheGroupsOfAGrid) {
  const NcclLibrary nccl = fresh_nccl(GetParam());
  expect_same_as_threads(
      8,
      [](Communicator& world) {
        const ProcessGrid groups = make_process_grid(world, {2, 2, 1, false, 2});
        EXPECT_EQ(groups.cp->name(), "cp");
        EXPECT_EQ(groups.cp->rank(), groups.cp_rank());
        Log log;
        for (Communicator* comm :
             {groups.tp.get(), groups.cp.get(), groups.dp.get(), groups.pp.get()}) {
          std::vector<double> data = values_of<double>(world.rank(), 5000);
          comm->all_reduce(std::span(data), ReduceOp::sum);
          log.add(std::string(comm->name()), data);
        }
        return log;
      },
      nccl);
  const bool splits = GetParam() != kBeforeSplit;
  EXPECT_EQ(fake_nccl().connected, splits ? 8 : 5 * 8);
  EXPECT_EQ(fake_nccl().split, splits ? 4 * 8 : 0);
  EXPECT_EQ(fake_nccl().destroyed, 5 * 8);
  EXPECT_EQ(fake_nccl().aborted, 0);
}

TEST(NcclCommunicator, SplitOrdersByKeyThenRank) {
  const NcclLibrary nccl = fresh_nccl();
  expect_ranks_ok(6, on_nccl(nccl, [](Communicator& world) {
                    // Even ranks in reverse, odd ranks with equal keys.
                    const bool even = world.rank() % 2 == 0;
                    const auto group = world.split(even ? 7 : -1, even ? -world.rank() : 0, "part");
                    std::vector<int> members(3);
                    const int own = world.rank();
                    group->all_gather(std::span<const int>(&own, 1), std::span(members));
                    EXPECT_EQ(members, even ? (std::vector{4, 2, 0}) : (std::vector{1, 3, 5}));
                    // Splits of splits, and after collectives.
                    const auto pair = group->split(group->rank() == 2 ? 1 : 0, 0, "pair");
                    EXPECT_EQ(pair->size(), group->rank() == 2 ? 1 : 2);
                  }));
}

// The host cannot access their memory, and earlier launches have not run yet.
TEST(NcclCommunicator, TensorsOfTheDeviceStayThere) {
  const NcclLibrary nccl = fresh_nccl();
  expect_ranks_ok(2, [&](Communicator& world) {
    const std::unique_ptr<Device> device = make_device(Backend::cuda_emulated, world.rank());
    const std::unique_ptr<NcclStream> stream = make_nccl_stream(*device);
    const std::unique_ptr<Communicator> comm = over_nccl(world, *stream, nccl);
    constexpr std::size_t kCount = 1000;
    const std::vector<float> own = values_of<float>(world.rank(), kCount);
    DeviceArray<float> tensor(*device, kCount, "tensor", MemorySpace::device);
    DeviceArray<float> all(*device, 2 * kCount, "all", MemorySpace::device);
    device->copy(tensor.data(), own.data(), kCount * sizeof(float));
    device->fill(all.data(), 0, 2 * kCount * sizeof(float), MemorySpace::device);
    comm->all_gather(tensor.data(), all.data(), kCount, DType::f32);
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::sum}) {
      comm->all_reduce(tensor.data(), kCount, DType::f32, op);
    }
    std::vector<float> got(2 * kCount);
    device->copy(got.data(), all.data(), 2 * kCount * sizeof(float));
    EXPECT_TRUE(same_bits(got.data() + kCount, values_of<float>(1, kCount).data(), kCount));
    device->copy(got.data(), tensor.data(), kCount * sizeof(float));
    EXPECT_EQ(got[7], 2 * std::max(value_of<float>(0, 7), value_of<float>(1, 7)));
  });
}

/// Stream of an emulated device that reaches some memory only, or reports another GPU.
class OtherStream final : public NcclStream {
 public:
  OtherStream(Device& device, const void* out_of_reach, std::string gpu)
      : NcclStream(device),
        inner_(make_nccl_stream(device)),
        out_of_reach_(out_of_reach),
        gpu_(std::move(gpu)) {}
  bool idle() override { return inner_->idle(); }
  bool reaches(const void* memory) const override { return memory != out_of_reach_; }
  std::string gpu() const override { return gpu_; }
  void reduce(const RankRows& rows, ReduceOp op, void* out) override {
    inner_->reduce(rows, op, out);
  }

 private:
  std::unique_ptr<NcclStream> inner_;
  const void* out_of_reach_;
  std::string gpu_;
};

/// Runs `body` on two ranks; kernels of the ranks in `hidden` do not reach their memory at `data`.
RanksOutcome run_with_hidden_memory(
    const std::set<int>& hidden,
    const std::function<void(Communicator&, std::array<float, 2>& data)>& body) {
  const NcclLibrary nccl = fresh_nccl();
  return run_thread_ranks(
      2,
      [&](Communicator& world) {
        const std::unique_ptr<Device> device = make_device(Backend::cuda_emulated, world.rank());
        std::array<float, 2> data{1.0f, static_cast<float>(world.rank())};
        OtherStream stream(*device, hidden.contains(world.rank()) ? data.data() : nullptr,
                           fmt::format("GPU {}", world.rank()));
        body(*over_nccl(world, stream, nccl), data);
      },
      kNoHurry);
}

TEST(NcclCommunicator, MemoryThatKernelsCannotReachGoesOverTheHosts) {
  const RanksOutcome outcome =
      run_with_hidden_memory({0, 1}, [](Communicator& comm, std::array<float, 2>& data) {
        comm.all_reduce(std::span<float>(data), ReduceOp::sum);
        EXPECT_EQ(data, (std::array{2.0f, 1.0f}));
        comm.barrier();
      });
  EXPECT_TRUE(outcome.all_ok());
  EXPECT_EQ(fake_nccl().collectives, 0);
}

TEST(NcclCommunicator, RanksThatGoDifferentWaysAreNamed) {
  const RanksOutcome outcome =
      run_with_hidden_memory({1}, [](Communicator& comm, std::array<float, 2>& data) {
        comm.all_reduce(std::span<float>(data), ReduceOp::sum);
      });
  EXPECT_EQ(outcome.first_failed_rank, 1);
  EXPECT_THAT(outcome.ranks[0].message,
              HasSubstr("rank 0 calls all_reduce sum of 2 f32 between GPUs, rank 1 calls "
                        "all_reduce sum of 2 f32"));
}

TEST(NcclCommunicator, RanksThatShareAGpuAreRefused) {
  const NcclLibrary nccl = fresh_nccl();
  const RanksOutcome outcome = run_thread_ranks(
      3,
      [&](Communicator& world) {
        const std::unique_ptr<Device> device = make_device(Backend::cuda_emulated, world.rank());
        OtherStream stream(*device, nullptr, fmt::format("GPU-{}", world.rank() % 2));
        over_nccl(world, stream, nccl);
      },
      kNoHurry);
  for (const RankOutcome& rank : outcome.ranks) {
    EXPECT_EQ(rank.code, ErrorCode::unsupported);
    EXPECT_EQ(rank.message,
              "NCCL wants a GPU of its own for every rank; ranks 0 and 2 share GPU-0");
  }
  EXPECT_EQ(fake_nccl().made(), 0);
}

TEST(NcclCommunicator, BadArgumentsAreErrorsOfTheCaller) {
  const NcclLibrary nccl = fresh_nccl();
  expect_ranks_ok(2, on_nccl(nccl, [](Communicator& comm) {
                    std::array<bf16, 4> data{};
                    EXPECT_THROW(comm.all_reduce(std::span<bf16>(data), ReduceOp::sum), Error);
                    EXPECT_THROW(comm.broadcast(std::span<bf16>(data), 2), Error);
                    comm.barrier();
                  }));
}

TEST(NcclCommunicator, ALibraryThatIsNotThereOrNotNcclIsNamed) {
  const auto said_of = [](const std::string& path) -> std::string {
    try {
      load_nccl(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      return error.what();
    }
    return "loaded";
  };
  EXPECT_THAT(said_of("/nowhere/libnccl.so.2"), HasSubstr("/nowhere/libnccl.so.2: cannot open"));
  EXPECT_EQ(said_of("libm.so.6"), "libm.so.6 has no ncclGetVersion");
}

}  // namespace
}  // namespace lossgrid
