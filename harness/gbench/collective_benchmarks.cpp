// SPDX-License-Identifier: Apache-2.0
// An iteration is one call of a collective, timed on rank 0; ranks make a batch of calls between
// two barriers. Google Benchmark decides the number of batches, outside of the ranks. The start of
// threads is not timed.
#include <chrono>
#include <functional>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/clock.h"
#include "harness/gbench/micro_benchmarks.h"

namespace lossgrid {
namespace {

constexpr int kCalls = 20;  // of a batch
constexpr std::chrono::seconds kDeadline(60);

/// `small` and `large` have `count` and size() * count elements.
using Call = void (*)(Communicator& world, std::span<float> small, std::span<float> large);

/// Returns the ns of kCalls calls on rank 0; negative if a rank failed.
std::int64_t time_calls(int ranks, std::size_t count, Call call) {
  const auto elapsed_ns = std::make_shared<std::int64_t>(-1);
  const RanksOutcome outcome = run_thread_ranks(
      ranks,
      [count, call, elapsed_ns](Communicator& world) {
        std::vector<float> small(count, 1.0f);
        std::vector<float> large(count * static_cast<std::size_t>(world.size()), 1.0f);
        world.barrier();
        const std::int64_t start = steady_clock_ns();
        for (int i = 0; i < kCalls; ++i) call(world, small, large);
        world.barrier();
        if (world.rank() == 0) *elapsed_ns = steady_clock_ns() - start;
      },
      kDeadline);
  return outcome.all_ok() ? *elapsed_ns : -1;
}

void run(benchmark::State& state, Call call) {
  const auto count = static_cast<std::size_t>(state.range(1));
  while (state.KeepRunningBatch(kCalls)) {
    const std::int64_t ns = time_calls(static_cast<int>(state.range(0)), count, call);
    if (ns < 0) return state.SkipWithError("a rank failed");
    state.SetIterationTime(1e-9 * static_cast<double>(ns));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * count * sizeof(float)));
}

void add(const char* name, Call call) {
  auto* added = benchmark::RegisterBenchmark(fmt::format("{}/threads", name).c_str(),
                                             [call](benchmark::State& state) { run(state, call); });
  added->UseManualTime()->Unit(benchmark::kMicrosecond)->ArgsProduct({{2, 8}, {256, 65536}});
}

}  // namespace

void register_collectives() {
  add("all_reduce", [](Communicator& world, std::span<float> small, std::span<float>) {
    world.all_reduce(small, ReduceOp::max);
  });
  add("all_gather", [](Communicator& world, std::span<float> small, std::span<float> large) {
    world.all_gather(std::span<const float>(small), large);
  });
  add("reduce_scatter", [](Communicator& world, std::span<float> small, std::span<float> large) {
    world.reduce_scatter(std::span<const float>(large), small, ReduceOp::max);
  });
}

}  // namespace lossgrid
