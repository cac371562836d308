// SPDX-License-Identifier: Apache-2.0
// Flight records, read while ranks run, after they failed, and from files.
#include "harness/comm/faults/flight_recorder.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "harness/comm/process_grid.h"
#include "ranks.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// A folder of its own, made at first use and removed at the end.
class FlightRecorderTest : public testing::Test {
 protected:
  ~FlightRecorderTest() override {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  std::string folder() {
    if (folder_.empty()) {
      folder_ = (std::filesystem::temp_directory_path() / "lossgrid_crumbs_XXXXXX").string();
      ::mkdtemp(folder_.data());
    }
    return folder_;
  }

 private:
  std::string folder_;
};

std::vector<std::string> calls_of(const RankTrace& trace) {
  std::vector<std::string> calls;
  for (const TracedCall& call : trace.calls) calls.push_back(describe(call));
  return calls;
}

void enter_barrier(FlightRecorder& recorder, std::uint64_t number) {
  recorder.enter(Collective::barrier, 0, DType::u8, std::nullopt, std::nullopt, number, "world");
}

TEST_F(FlightRecorderTest, HasTheArgumentsOfEveryCall) {
  FlightRecorder recorder(1, 2, 1, "");
  expect_ranks_ok(1, [&](Communicator& world) {
    const auto recorded = record_calls(world, recorder);
    const auto part = recorded->split(0, 0, "a_name_of_more_than_16");
    std::vector<float> data(3);
    recorded->all_reduce(std::span(data), ReduceOp::max);
    part->broadcast(std::span(data), 0);
    recorded->all_gather(std::span<const float>(data), std::span(data));
    part->reduce_scatter(data.data(), data.data(), 3, DType::f32, ReduceOp::sum);
    recorded->barrier();
  });
  EXPECT_THAT(calls_of(recorder.trace()),
              ElementsAre("split, call #1 of 'world', done",
                          "all_reduce max of 3 f32, call #2 of 'world', done",
                          "broadcast of 3 f32 from 0, call #1 of 'a_name_of_more_t', done",
                          "all_gather of 3 f32, call #3 of 'world', done",
                          "reduce_scatter sum of 3 f32, call #2 of 'a_name_of_more_t', done",
                          "barrier, call #4 of 'world', done"));
}

TEST_F(FlightRecorderTest, KeepsTheLastCalls) {
  FlightRecorder recorder(1, 1, 0, "");
  EXPECT_TRUE(recorder.trace().calls.empty());
  EXPECT_FALSE(recorder.trace().in_collective());
  for (std::uint64_t k = 1; k <= 100; ++k) {
    enter_barrier(recorder, k);
    if (k < 100) recorder.leave();
  }
  const RankTrace trace = recorder.trace();
  ASSERT_EQ(trace.calls.size(), kRecordedCalls);
  EXPECT_EQ(describe(trace.calls.front()), "barrier, call #85 of 'world', done");
  EXPECT_EQ(describe(trace.calls.back()), "barrier, call #100 of 'world', entered");
  EXPECT_TRUE(trace.in_collective());
}

TEST_F(FlightRecorderTest, CanBeReadWhileItIsWritten) {
  FlightRecorder recorder(1, 1, 0, "");
  std::atomic<bool> over = false;
  std::thread reader([&] {
    int torn = 0;
    for (int k = 0; k < 3000; ++k) {
      // A call is complete or left out: its count equals its number.
      for (const TracedCall& call : recorder.trace().calls) {
        torn += call.call == "all_gather of " + std::to_string(call.number) + " f64" ? 0 : 1;
      }
    }
    EXPECT_EQ(torn, 0);
    over = true;
  });
  for (std::uint64_t k = 1; !over; ++k) {
    recorder.enter_phase(kRankPhases[k % kRankPhases.size()]);
    recorder.enter(Collective::all_gather, k, DType::f64, std::nullopt, std::nullopt, k, "tp");
    recorder.leave();
  }
  reader.join();
}

TEST_F(FlightRecorderTest, IsThereAfterARunThatFailed) {
  const RanksOutcome outcome = run_thread_ranks(
      4,
      [](Communicator& world) {
        enter_phase(RankPhase::setup);
        const ProcessGrid grid = make_process_grid(world, {2, 2});
        if (world.rank() == 3) return;
        enter_phase(RankPhase::forward);
        if (world.rank() == 2) throw std::runtime_error("boom");
        add_up(*grid.cp, 8);
      },
      kNoHurry);
  const RankTrace& thrower = outcome.ranks[2].trace;
  EXPECT_TRUE(thrower.known);
  EXPECT_EQ(thrower.rank, 2);
  EXPECT_EQ(thrower.phase, RankPhase::forward);
  EXPECT_EQ(thrower.end, RankEnd::threw);
  EXPECT_EQ(describe(thrower.calls.back()), "split, call #4 of 'world', done");
  const RankTrace& waiting = outcome.ranks[0].trace;
  EXPECT_TRUE(waiting.in_collective());
  EXPECT_EQ(describe(waiting.calls.back()), "all_reduce sum of 8 f32, call #1 of 'cp', entered");
  EXPECT_EQ(outcome.ranks[3].trace.end, RankEnd::returned);
  EXPECT_EQ(outcome.ranks[3].trace.phase, RankPhase::setup);
}

TEST_F(FlightRecorderTest, OtherRanksReadTheRecordOfAHangingOne) {
  const RanksOutcome outcome = run_thread_ranks(
      2,
      [](Communicator& world) {
        world.barrier();
        enter_phase(RankPhase::backward);
        while (world.rank() == 1) std::this_thread::sleep_for(milliseconds(10));
        world.barrier();
      },
      kDeadline, milliseconds(60));
  EXPECT_FALSE(outcome.ranks[1].finished);
  EXPECT_TRUE(outcome.ranks[1].busy);
  EXPECT_FALSE(outcome.ranks[0].busy);
  EXPECT_EQ(outcome.ranks[1].trace.end, RankEnd::running);
  EXPECT_EQ(outcome.ranks[1].trace.phase, RankPhase::backward);
  EXPECT_THAT(calls_of(outcome.ranks[1].trace), ElementsAre("barrier, call #1 of 'world', done"));
  EXPECT_THAT(
      calls_of(outcome.ranks[0].trace),
      ElementsAre("barrier, call #1 of 'world', done", "barrier, call #2 of 'world', entered"));
}

TEST_F(FlightRecorderTest, InAFileOutlivesTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* kVariable = "LOSSGRID_BREADCRUMBS";
  // The process of the death test begins this test anew, and has the variable from here.
  if (std::getenv(kVariable) == nullptr) {
    ::setenv(kVariable, (folder() + "/made/here").c_str(), 1);
  }
  EXPECT_EXIT(run_thread_ranks(
                  2,
                  [](Communicator& world) {
                    world.barrier();
                    enter_phase(RankPhase::plan);
                    if (world.rank() == 0) return world.barrier();
                    wait_until(ThreadRankState::waiting, {0});
                    std::raise(SIGKILL);
                  },
                  kNoHurry),
              testing::KilledBySignal(SIGKILL), "");
  const std::string directory = std::getenv(kVariable);
  ::unsetenv(kVariable);
  const std::vector<RankTrace> traces = read_flight_records(directory);
  ASSERT_EQ(traces.size(), 2u);
  for (const RankTrace& trace : traces) {
    EXPECT_TRUE(trace.known);
    EXPECT_EQ(trace.end, RankEnd::running);
    EXPECT_EQ(trace.phase, RankPhase::plan);
  }
  EXPECT_THAT(calls_of(traces[0]), ElementsAre("barrier, call #1 of 'world', done",
                                               "barrier, call #2 of 'world', entered"));
  EXPECT_THAT(calls_of(traces[1]), ElementsAre("barrier, call #1 of 'world', done"));
}

TEST_F(FlightRecorderTest, IsReadFromFilesOfTheNewestRun) {
  EXPECT_TRUE(read_flight_records(folder() + "/nowhere").empty());
  EXPECT_TRUE(read_flight_records(folder()).empty());
  constexpr int kRanks = 30;
  for (int rank = 2; rank < kRanks; ++rank) FlightRecorder(1, kRanks, rank, folder());
  FlightRecorder zero(2, kRanks, 0, folder());
  enter_barrier(zero, 7);
  FlightRecorder one(2, kRanks, 1, folder());
  one.enter_phase(RankPhase::check);
  one.finish(RankEnd::returned);
  std::ofstream(folder() + "/rank00002.crumbs") << "too short";
  std::ofstream(folder() + "/rank00003.crumbs") << std::string(sizeof(FlightRecorderPage), 'x');
  std::ofstream(folder() + "/notes.txt") << "something else";
  const std::vector<RankTrace> traces = read_flight_records(folder());
  ASSERT_EQ(traces.size(), static_cast<std::size_t>(kRanks));
  EXPECT_TRUE(traces[0].known);
  EXPECT_TRUE(traces[0].in_collective());
  EXPECT_THAT(calls_of(traces[0]), ElementsAre("barrier, call #7 of 'world', entered"));
  EXPECT_TRUE(traces[1].known);
  EXPECT_EQ(traces[1].phase, RankPhase::check);
  EXPECT_EQ(traces[1].end, RankEnd::returned);
  for (int rank = 2; rank < kRanks; ++rank) {  // of the previous run, or damaged
    const RankTrace& trace = traces[static_cast<std::size_t>(rank)];
    EXPECT_FALSE(trace.known) << rank;
    EXPECT_EQ(trace.rank, rank);
  }
}

TEST_F(FlightRecorderTest, AFileIsEmptyAtTheBeginOfARun) {
  {
    FlightRecorder recorder(1, 1, 0, folder());
    recorder.enter_phase(RankPhase::check);
    enter_barrier(recorder, 1);
  }
  const FlightRecorder recorder(2, 1, 0, folder());
  EXPECT_EQ(recorder.trace().phase, RankPhase::none);
  EXPECT_TRUE(recorder.trace().calls.empty());
}

TEST_F(FlightRecorderTest, AFolderThatCannotBeMadeIsNamed) {
  try {
    FlightRecorder(1, 1, 0, "/proc/nowhere");
    ADD_FAILURE() << "was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("/proc/nowhere/rank00000.crumbs"));
  }
}

TEST_F(FlightRecorderTest, IgnoresAPhaseOutsideOfRanks) {
  enter_phase(RankPhase::plan);  // nothing to write to
  FlightRecorder outer(1, 1, 0, "");
  FlightRecorder inner(1, 1, 0, "");
  const FlightRecorderScope of_outer(outer);
  {
    const FlightRecorderScope of_inner(inner);
    enter_phase(RankPhase::forward);
  }
  enter_phase(RankPhase::check);
  EXPECT_EQ(inner.trace().phase, RankPhase::forward);
  EXPECT_EQ(outer.trace().phase, RankPhase::check);
}

}  // namespace
}  // namespace lossgrid
