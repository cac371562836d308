// SPDX-License-Identifier: Apache-2.0
// Both kinds of code run on one thread: the comparison is of code, and small rows do not wait for a
// team of threads. Bytes are those that the Highway kernel moves, also for plain loops, so that
// rates compare like times.
#include <array>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "harness/device/kernel/rank_threads.h"
#include "harness/gbench/micro_benchmarks.h"
#include "harness/gbench/plain_kernels.h"
#include "impls/kernels/rows.h"

namespace lossgrid {
namespace {

constexpr std::array<std::int64_t, 3> kVocabs{512, 32768, 151936};
constexpr std::int64_t kRegimeVocab = 32768;

/// Registers `kernel`, which moves the logits of all rows `times` times.
template <typename T, typename Kernel>
void run(benchmark::State& state, KernelRows<T>& rows, int times, Kernel&& kernel) {
  const int before = rank_threads();
  set_rank_threads(1);
  for ([[maybe_unused]] auto _ : state) {
    kernel(rows);
    benchmark::ClobberMemory();
  }
  set_rank_threads(before);
  const auto bytes = static_cast<std::int64_t>(rows.logits.size() * sizeof(T));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * times * bytes);
}

template <typename T>
void highway_gradient(KernelRows<T>& rows) {
  rows_gradient(rows.view, {rows.shift.data(), rows.sum.data()}, {rows.grad.data()},
                rows.gradient.data());
}

/// Transforms of the rows of a benchmark: a temperature, a soft-cap.
constexpr std::array<RowTransform, 2> kTransforms{{{.factor = 1.25f}, {.factor = 1, .limit = 30}}};

template <typename T>
LogitsRows transformed(const KernelRows<T>& rows, const RowTransform& transform) {
  static std::array<RowTransform, kBenchmarkRows> of_rows;
  of_rows.fill(transform);
  LogitsRows view = rows.view;
  view.transforms = of_rows.data();
  return view;
}

/// The gradient where the loss depends on the entropy and the mean of log-probabilities too.
template <typename T>
void term_gradient(KernelRows<T>& rows, const LogitsRows& view) {
  const float* grad = rows.grad.data();
  rows_gradient(view,
                {rows.shift.data(), rows.sum.data(), rows.weighted.data(), rows.finite.data()},
                {grad, grad, nullptr, grad}, rows.gradient.data());
}

template <typename T, typename Kernel>
void add(const std::string& name, int times, Kernel kernel) {
  auto* added = benchmark::RegisterBenchmark(
      fmt::format("{}/{}", name, lossgrid::name(DTypeOf<T>::value)).c_str(),
      [times, kernel](benchmark::State& state) {
        KernelRows<T> rows(state.range(0));
        run(state, rows, times, kernel);
      });
  for (const std::int64_t vocab : kVocabs) added->Arg(vocab);
}

template <typename T>
void add_sweep() {
  auto* added = benchmark::RegisterBenchmark(
      fmt::format("sweep/highway/{}", name(DTypeOf<T>::value)).c_str(),
      [](benchmark::State& state) {
        KernelRows<T> rows(state.range(0));
        const std::int64_t floats =
            forward_backward_scratch_floats(DTypeOf<T>::value, rows.view.shard, false);
        DeviceArray<float> scratch(*rows.device, static_cast<std::size_t>(floats), "scratch");
        run(state, rows, 2, [&scratch](KernelRows<T>& r) {
          rows_forward_backward(r.view, r.grad.data(), {scratch.data(), scratch.size()},
                                r.statistics(), r.gradient.data());
        });
      });
  for (const std::int64_t vocab : kVocabs) added->Arg(vocab);
}

template <typename T>
void add_regimes() {
  for (const Regime regime : kRegimes) {
    benchmark::RegisterBenchmark(
        fmt::format("values/{}/{}", name(regime), name(DTypeOf<T>::value)).c_str(),
        [regime](benchmark::State& state) {
          KernelRows<T> rows(state.range(0), regime);
          run(state, rows, 3, [](KernelRows<T>& r) {
            rows_statistics(r.view, r.statistics());
            highway_gradient(r);
          });
        })
        ->Arg(kRegimeVocab);
  }
}

template <typename T>
void add_all() {
  add<T>("statistics/highway", 1,
         [](KernelRows<T>& r) { rows_statistics(r.view, r.statistics()); });
  add<T>("statistics/plain", 1, plain::statistics<T>);
  add<T>("all_statistics/highway", 1,
         [](KernelRows<T>& r) { rows_statistics(r.view, r.all_statistics()); });
  add<T>("term_statistics/highway", 1,
         [](KernelRows<T>& r) { rows_statistics(r.view, r.statistics_of_terms()); });
  add<T>("gradient/highway", 2, highway_gradient<T>);
  add<T>("term_gradient/highway", 2, [](KernelRows<T>& r) { term_gradient(r, r.view); });
  for (const RowTransform& transform : kTransforms) {
    const char* kind = transform.limit == 0 ? "scaled" : "capped";
    add<T>(fmt::format("{}_statistics/highway", kind), 1, [transform](KernelRows<T>& r) {
      rows_statistics(transformed(r, transform), r.statistics());
    });
    add<T>(fmt::format("{}_gradient/highway", kind), 2,
           [transform](KernelRows<T>& r) { term_gradient(r, transformed(r, transform)); });
  }
  add<T>("gradient/plain", 2, plain::gradient<T>);
  add_sweep<T>();
  add<T>("sweep/plain", 2, plain::sweep<T>);
  add_regimes<T>();
}

}  // namespace

void register_kernels() {
  add_all<float>();
  add_all<bf16>();
}

}  // namespace lossgrid
