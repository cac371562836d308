// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/counting_communicator.h"

#include <vector>

#include "harness/comm/call_signature.h"
#include "harness/comm/faults/flight_recorder.h"
#include "ranks.h"

namespace lossgrid {
namespace {

TEST(CountingCommunicator, CountsCallsAndPayloadByOperation) {
  expect_ranks_ok(3, [](Communicator& world) {
    CollectiveCounts counts;
    const auto comm = count_calls(world, counts);
    EXPECT_EQ(comm->rank(), world.rank());
    EXPECT_EQ(comm->size(), 3);
    EXPECT_EQ(comm->name(), "world");
    std::vector<double> a(5, 1.0);
    std::vector<double> all(15);
    comm->all_reduce(std::span(a), ReduceOp::sum);
    EXPECT_EQ(a[4], 3.0);  // forwarded too
    comm->all_gather(std::span<const double>(a), std::span(all));
    EXPECT_EQ(all[14], 3.0);
    comm->reduce_scatter(std::span<const double>(all), std::span(a), ReduceOp::sum);
    EXPECT_EQ(a[4], 9.0);
    std::vector<bf16> b(7, bf16(static_cast<float>(world.rank())));
    comm->broadcast(std::span(b), 2);
    EXPECT_EQ(b[6], bf16(2.0f));
    comm->broadcast(std::span(b), 1);
    comm->barrier();

    CollectiveCounts want;
    want.add(Collective::all_reduce, 1, 40);
    want.add(Collective::all_gather, 1, 40);       // this rank's send
    want.add(Collective::reduce_scatter, 1, 120);  // the whole send
    want.add(Collective::broadcast, 2, 28);
    want.add(Collective::barrier, 1, 0);
    EXPECT_EQ(counts, want);
    EXPECT_EQ(counts.total(), (CollectiveCount{6, 228}));
    EXPECT_EQ(counts[Collective::reduce_scatter], (CollectiveCount{1, 120}));
  });
}

// Decorators count an external transfer as the collective that it is.
TEST(CountingCommunicator, ACarriedCallCountsAsWhatItIs) {
  expect_ranks_ok(3, [](Communicator& world) {
    CollectiveCounts counts;
    FlightRecorder recorder(1, 3, world.rank(), "");
    const auto inner = record_calls(world, recorder);
    const auto comm = count_calls(*inner, counts);
    int asked = 0;
    const auto done = [&] { return ++asked >= 2; };
    comm->transfer_external({Collective::reduce_scatter, 5, DType::f64, ReduceOp::max}, done);
    comm->transfer_external({}, done);  // a split
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(counts[Collective::reduce_scatter], (CollectiveCount{1, 120}));
    EXPECT_EQ(counts.total(), (CollectiveCount{1, 120}));
    ASSERT_EQ(recorder.trace().calls.size(), 2u);
    EXPECT_EQ(recorder.trace().calls[0].call, "reduce_scatter max of 5 f64");
    EXPECT_EQ(recorder.trace().calls[1].call, "split");
  });
}

TEST(CountingCommunicator, SplitsCountIntoTheSame) {
  expect_ranks_ok(4, [](Communicator& world) {
    CollectiveCounts counts;
    const auto comm = count_calls(world, counts);
    const auto pair = comm->split(world.rank() / 2, world.rank(), "pair");
    EXPECT_EQ(pair->name(), "pair");
    EXPECT_EQ(counts.total(), CollectiveCount{});  // the split itself is no payload
    std::int32_t value = 1;
    pair->all_reduce(std::span(&value, 1), ReduceOp::sum);
    EXPECT_EQ(value, 2);
    const auto self = pair->split(pair->rank(), 0, "self");
    self->all_reduce(std::span(&value, 1), ReduceOp::sum);
    comm->all_reduce(std::span(&value, 1), ReduceOp::sum);
    EXPECT_EQ(value, 8);
    EXPECT_EQ(counts[Collective::all_reduce], (CollectiveCount{3, 12}));
    EXPECT_EQ(counts.total(), (CollectiveCount{3, 12}));
  });
}

TEST(CountingCommunicator, AbortReachesTheInnerOne) {
  const RanksOutcome outcome = run_thread_ranks(
      2,
      [](Communicator& world) {
        CollectiveCounts counts;
        const auto comm = count_calls(world, counts);
        if (world.rank() == 0) return comm->abort("stop");
        comm->barrier();
      },
      kNoHurry);
  EXPECT_EQ(outcome.first_failed_rank, 0);
  EXPECT_EQ(outcome.ranks[1].code, ErrorCode::aborted);
}

}  // namespace
}  // namespace lossgrid
