// SPDX-License-Identifier: Apache-2.0
// Micro-benchmarks of what a trial spends its time on: row kernels and small collectives between
// ranks that are threads. bench --benchmark_filter=REGEX; with
// --benchmark_enable_random_interleaving=true --benchmark_repetitions=9 rows can be compared.
#include <cstdint>
#include <limits>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/comm/thread_communicator.h"
#include "harness/core/philox.h"
#include "impls/kernels/cpu/sweep_rows.h"

namespace lossgrid {
namespace {

/// Numbers that kernels or processors might be slow at, in half of the columns or all.
enum Values { ordinary, vanishing, denormal, minus_infinity, finite_mask, offset, late_max };

float value_of(Values values, std::int64_t column, std::int64_t vocab, float x) {
  const bool first_half = column < vocab / 2;
  switch (values) {
    case vanishing:
      return column % 2 == 0 ? x : x - 95;  // exp is a denormal number
    case denormal:
      return 1e-39f * x;
    case minus_infinity:
      return first_half ? -std::numeric_limits<float>::infinity() : x;
    case finite_mask:
      return first_half ? -1e30f : x;
    case offset:
      return x + 1e4f;
    case late_max:
      return column < 1024 ? x - 50 : x;
    default:
      return x;
  }
}

/// 8 rows of logits, [-1, 1) or made of such numbers, all with a target.
template <typename T>
struct Rows {
  explicit Rows(std::int64_t vocab, Values values = ordinary)
      : logits(static_cast<std::size_t>(8 * vocab)), gradient(logits.size()) {
    const RandomStream random(1, 0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = T(value_of(values, static_cast<std::int64_t>(i) % vocab, vocab,
                             static_cast<float>(2 * random.uniform(i) - 1)));
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

template <typename T>
void sweep(benchmark::State& state) {
  Rows<T> rows(state.range(0));
  std::vector<float> scratch(
      static_cast<std::size_t>(sweep_scratch_floats(DTypeOf<T>::value, rows.view.shard, false)));
  for (auto _ : state) {
    rows_sweep(rows.view, rows.grad.data(), scratch,
               {rows.shift.data(), rows.sum.data(), rows.target.data()}, rows.gradient.data());
    benchmark::DoNotOptimize(rows.gradient.data());
  }
  state.SetBytesProcessed(state.iterations() * 2 * 8 * state.range(0) * sizeof(T));
}
BENCHMARK_TEMPLATE(sweep, float)->Arg(512)->Arg(151936);
BENCHMARK_TEMPLATE(sweep, bf16)->Arg(512)->Arg(151936);

/// Statistics and gradient of numbers that might be slow: within a tenth of `ordinary`.
template <typename T, Values kValues>
void values(benchmark::State& state) {
  Rows<T> rows(32768, kValues);
  for (auto _ : state) {
    rows_statistics(rows.view, {rows.shift.data(), rows.sum.data(), rows.target.data()});
    rows_gradient(rows.view, rows.shift.data(), rows.sum.data(), rows.grad.data(),
                  rows.gradient.data());
    benchmark::DoNotOptimize(rows.gradient.data());
  }
  state.SetBytesProcessed(state.iterations() * 3 * 8 * 32768 * sizeof(T));
}
BENCHMARK_TEMPLATE(values, float, ordinary);
BENCHMARK_TEMPLATE(values, float, vanishing);
BENCHMARK_TEMPLATE(values, float, denormal);
BENCHMARK_TEMPLATE(values, float, minus_infinity);
BENCHMARK_TEMPLATE(values, float, finite_mask);
BENCHMARK_TEMPLATE(values, float, offset);
BENCHMARK_TEMPLATE(values, float, late_max);
BENCHMARK_TEMPLATE(values, bf16, ordinary);
BENCHMARK_TEMPLATE(values, bf16, vanishing);
BENCHMARK_TEMPLATE(values, bf16, denormal);
BENCHMARK_TEMPLATE(values, bf16, minus_infinity);
BENCHMARK_TEMPLATE(values, bf16, finite_mask);
BENCHMARK_TEMPLATE(values, bf16, offset);
BENCHMARK_TEMPLATE(values, bf16, late_max);

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
