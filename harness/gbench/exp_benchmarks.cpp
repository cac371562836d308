// SPDX-License-Identifier: Apache-2.0
// Benchmarks of exp alone: the polynomial of the row kernels, compiled for every instruction set,
// against std::exp in a loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/gbench/exp_benchmarks.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/highway.h>

#include "impls/kernels/cpu/row_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// out := exp(x), `count` a multiple of kLanes.
void exponentials(const float* x, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; i += kVectorSize) {
    const auto t = distance<HWY_NATIVE_FMA != 0>(hn::LoadU(Floats(), x + i), hn::Zero(Floats()));
    hn::StoreU(exp2_of(t), Floats(), out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <benchmark/benchmark.h>

#include "harness/core/philox.h"
#include "harness/device/device.h"
#include "harness/gbench/micro_benchmarks.h"
#include "harness/gbench/plain_kernels.h"

namespace lossgrid {
namespace {

HWY_EXPORT(exponentials);

void run(benchmark::State& state,
         void (*exponentials_of)(const float* x, std::int64_t count, float* out)) {
  const std::unique_ptr<Device> device = make_cpu_device();
  DeviceArray<float> x(*device, static_cast<std::size_t>(state.range(0)), "x");
  DeviceArray<float> out(*device, x.size(), "exp_x");
  const RandomStream random(1, 0);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(-10 * random.uniform(i));
  for ([[maybe_unused]] auto _ : state) {
    exponentials_of(x.data(), state.range(0), out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

void highway_exponentials(const float* x, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(exponentials)(x, count, out);
}

}  // namespace

void register_exponentials() {
  benchmark::RegisterBenchmark("exp/highway/f32", [](benchmark::State& state) {
    run(state, highway_exponentials);
  })->Arg(32768);
  benchmark::RegisterBenchmark("exp/plain/f32", [](benchmark::State& state) {
    run(state, plain::exponentials);
  })->Arg(32768);
}

}  // namespace lossgrid
#endif  // HWY_ONCE
