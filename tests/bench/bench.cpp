// SPDX-License-Identifier: Apache-2.0
// Micro-benchmarks of what a trial spends its time on: row kernels and small collectives between
// ranks that are threads. bench --benchmark_filter=REGEX
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/comm/thread_communicator.h"
#include "harness/core/philox.h"
#include "impls/kernels/cpu/softmax_rows.h"

namespace lossgrid {
namespace {

/// 8 rows of logits in [-1, 1), all with a target.
template <typename T>
struct Rows {
  explicit Rows(std::int64_t vocab)
      : logits(static_cast<std::size_t>(8 * vocab)), gradient(logits.size()) {
    const RandomStream random(1, 0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = T(static_cast<float>(2 * random.uniform(i) - 1));
    }
    view = {DTypeOf<T>::value,        logits.data(),  8,
            vocab_shard(vocab, 1, 0), targets.data(), valid.data()};
  }
  std::vector<T> logits;
  std::vector<T> gradient;
  std::vector<std::int32_t> targets = std::vector<std::int32_t>(8, 3);
  std::vector<std::uint8_t> valid = std::vector<std::uint8_t>(8, 1);
  std::vector<float> shift = std::vector<float>(8);
  std::vector<float> sum = std::vector<float>(8, 1.0f);
  std::vector<float> target = std::vector<float>(8);
  std::vector<float> grad = std::vector<float>(8, -0.125f);
  LogitsRows view;
};

template <typename T>
void statistics(benchmark::State& state) {
  Rows<T> rows(state.range(0));
  for (auto _ : state) {
    rows_statistics(rows.view, {rows.shift.data(), rows.sum.data(), rows.target.data()});
    benchmark::DoNotOptimize(rows.sum.data());
  }
  state.SetBytesProcessed(state.iterations() * 8 * state.range(0) * sizeof(T));
}
BENCHMARK_TEMPLATE(statistics, float)->Arg(512)->Arg(151936);
BENCHMARK_TEMPLATE(statistics, bf16)->Arg(512)->Arg(151936);

/// With the entropy and the smallest logit from the same pass.
template <typename T>
void all_statistics(benchmark::State& state) {
  Rows<T> rows(state.range(0));
  std::vector<float> min(8);
  std::vector<float> weighted(8);
  for (auto _ : state) {
    rows_statistics(rows.view, {rows.shift.data(), rows.sum.data(), rows.target.data(),
                                weighted.data(), min.data()});
    benchmark::DoNotOptimize(weighted.data());
  }
  state.SetBytesProcessed(state.iterations() * 8 * state.range(0) * sizeof(T));
}
BENCHMARK_TEMPLATE(all_statistics, float)->Arg(512)->Arg(151936);
BENCHMARK_TEMPLATE(all_statistics, bf16)->Arg(512)->Arg(151936);

template <typename T>
void gradient(benchmark::State& state) {
  Rows<T> rows(state.range(0));
  for (auto _ : state) {
    rows_gradient(rows.view, rows.shift.data(), rows.sum.data(), rows.grad.data(),
                  rows.gradient.data());
    benchmark::DoNotOptimize(rows.gradient.data());
  }
  state.SetBytesProcessed(state.iterations() * 2 * 8 * state.range(0) * sizeof(T));
}
BENCHMARK_TEMPLATE(gradient, float)->Arg(512)->Arg(151936);
BENCHMARK_TEMPLATE(gradient, bf16)->Arg(512)->Arg(151936);

/// 100 all-reduces of 256 floats between `ranks` threads, their start included.
void small_all_reduces(benchmark::State& state) {
  for (auto _ : state) {
    run_thread_ranks(
        static_cast<int>(state.range(0)),
        [](Communicator& world) {
          std::vector<float> values(256, 1.0f);
          for (int i = 0; i < 100; ++i) world.all_reduce(std::span<float>(values), ReduceOp::max);
        },
        std::chrono::seconds(60));
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(small_all_reduces)->Arg(2)->Arg(8)->UseRealTime();

}  // namespace
}  // namespace lossgrid

BENCHMARK_MAIN();
