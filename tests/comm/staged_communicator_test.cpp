// SPDX-License-Identifier: Apache-2.0
// Collectives on memory that the host cannot read, on memory that it can read, and on both.
#include "harness/comm/staged_communicator.h"

#include <gtest/gtest.h>

#include "harness/comm/launcher.h"
#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/error.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"
#include "harness/device/memory/host_view.h"

namespace lossgrid {
namespace {

using Floats = std::vector<float>;

class Tensor {
 public:
  Tensor(Device& device, const Floats& values, MemorySpace space)
      : array_(device, values.size(), "tensor", space) {
    device.copy(array_.data(), values.data(), values.size() * sizeof(float));
  }
  float* data() { return array_.data(); }
  Floats values() const {
    const HostView view(array_.buffer());
    const auto floats = view.as<const float>();
    return {floats.begin(), floats.end()};
  }

 private:
  DeviceArray<float> array_;
};

/// Runs body(communicator, device, space) on two ranks, once for either space.
template <typename Body>
void on_two_ranks(Body&& body) {
  for (const MemorySpace space : {MemorySpace::shared, MemorySpace::device}) {
    const RanksOutcome outcome = run_thread_ranks(
        2,
        [&](Communicator& world) {
          const std::unique_ptr<Device> device = make_emulated_device();
          const std::unique_ptr<Communicator> staged = stage_payloads(world, *device);
          body(*staged, *device, space);
        },
        std::chrono::seconds(20));
    for (const RankOutcome& rank : outcome.ranks) EXPECT_TRUE(rank.ok) << rank.message;
  }
}

TEST(StagedCommunicator, EveryCollectiveGetsThereAndBack) {
  on_two_ranks([](Communicator& ranks, Device& device, MemorySpace space) {
    const auto rank = static_cast<float>(ranks.rank());
    Tensor sum(device, {1 + rank, 10}, space);
    ranks.all_reduce(sum.data(), 2, DType::f32, ReduceOp::sum);
    EXPECT_EQ(sum.values(), (Floats{3, 20}));

    Tensor own(device, {rank}, space);
    Tensor all(device, {-1, -1}, space);
    ranks.all_gather(own.data(), all.data(), 1, DType::f32);
    EXPECT_EQ(all.values(), (Floats{0, 1}));

    Tensor parts(device, {5 + rank, 7 + rank}, space);
    Tensor part(device, {-1}, space);
    ranks.reduce_scatter(parts.data(), part.data(), 1, DType::f32, ReduceOp::sum);
    EXPECT_EQ(part.values(), Floats{rank == 0 ? 11.0f : 15.0f});

    Tensor shared(device, {rank}, space);
    ranks.broadcast(shared.data(), 1, DType::f32, 1);
    EXPECT_EQ(shared.values(), Floats{1});
    ranks.barrier();
  });
}

TEST(StagedCommunicator, KernelsAreDoneBeforeTheirResultsAreSent) {
  on_two_ranks([](Communicator& ranks, Device& device, MemorySpace space) {
    Tensor sum(device, {0}, space);
    float* place = sum.data();
    count_launch();
    static_cast<EmulatedStream*>(device.stream())->launch([place] { *place = 4; });
    ranks.all_reduce(sum.data(), 1, DType::f32, ReduceOp::sum);
    EXPECT_EQ(sum.values(), Floats{8});
  });
}

TEST(StagedCommunicator, ARankAloneGetsItsOwnPayload) {
  const RanksOutcome outcome = run_thread_ranks(
      1,
      [](Communicator& world) {
        const std::unique_ptr<Device> device = make_emulated_device();
        const std::unique_ptr<Communicator> alone = stage_payloads(world, *device);
        Tensor sum(*device, {1, 2}, MemorySpace::device);
        Tensor other(*device, {-1, -1}, MemorySpace::device);
        alone->all_reduce(sum.data(), 2, DType::f32, ReduceOp::sum);
        alone->broadcast(sum.data(), 2, DType::f32, 0);
        EXPECT_EQ(sum.values(), (Floats{1, 2}));
        alone->all_gather(sum.data(), other.data(), 2, DType::f32);
        EXPECT_EQ(other.values(), (Floats{1, 2}));
        Tensor part(*device, {-1, -1}, MemorySpace::device);
        alone->reduce_scatter(sum.data(), part.data(), 2, DType::f32, ReduceOp::sum);
        EXPECT_EQ(part.values(), (Floats{1, 2}));
      },
      std::chrono::seconds(20));
  EXPECT_TRUE(outcome.ranks[0].ok) << outcome.ranks[0].message;
}

}  // namespace
}  // namespace lossgrid
