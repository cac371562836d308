// SPDX-License-Identifier: Apache-2.0
// KernelRows: inputs and outputs of kernel benchmarks. Eight rows of logits with their statistics
// and gradient, in buffers of a device, aligned as those of a trial. Logits are drawn from [-1, 1),
// or from a regime that kernels or processors might be slow at.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "harness/core/philox.h"
#include "harness/device/device.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

enum class Regime { ordinary, vanishing, denormal, minus_infinity, finite_mask, offset, late_max };

inline constexpr std::array kRegimes{Regime::ordinary,       Regime::vanishing,   Regime::denormal,
                                     Regime::minus_infinity, Regime::finite_mask, Regime::offset,
                                     Regime::late_max};

inline std::string_view name(Regime regime) {
  constexpr std::array<std::string_view, kRegimes.size()> names{
      "ordinary", "vanishing", "denormal", "minus_infinity", "finite_mask", "offset", "late_max"};
  return names[static_cast<std::size_t>(regime)];
}

/// Maps `x` in [-1, 1) to the logit of a column in a row of the regime.
inline float logit_of(Regime regime, std::int64_t column, std::int64_t vocab, float x) {
  const bool first_half = column < vocab / 2;
  switch (regime) {
    case Regime::ordinary:
      return x;
    case Regime::vanishing:
      return column % 2 == 0 ? x : x - 95;  // exp is a denormal number
    case Regime::denormal:
      return 1e-39f * x;
    case Regime::minus_infinity:
      return first_half ? -std::numeric_limits<float>::infinity() : x;
    case Regime::finite_mask:
      return first_half ? -1e30f : x;
    case Regime::offset:
      return x + 1e4f;
    case Regime::late_max:
      return column < 1024 ? x - 50 : x;
  }
  return x;
}

inline constexpr std::int64_t kBenchmarkRows = 8;
inline constexpr std::int32_t kBenchmarkTarget = 3;  // of every row

/// The rows with logits of T, float or bf16.
template <typename T>
struct KernelRows {
  explicit KernelRows(std::int64_t vocab, Regime regime = Regime::ordinary) {
    const RandomStream random(1, 0);
    logits = {*device, static_cast<std::size_t>(kBenchmarkRows * vocab), "logits"};
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto x = static_cast<float>(2 * random.uniform(i) - 1);
      logits[i] = T(logit_of(regime, static_cast<std::int64_t>(i) % vocab, vocab, x));
    }
    gradient = {*device, logits.size(), "grad_logits"};
    for (auto* column : {&shift, &sum, &target, &min, &weighted, &total, &finite, &grad}) {
      *column = {*device, kBenchmarkRows, "row_statistics"};
    }
    std::fill(shift.begin(), shift.end(), 0.0f);
    std::fill(sum.begin(), sum.end(), 1.0f);
    std::fill(grad.begin(), grad.end(), -0.125f);
    targets.fill(kBenchmarkTarget);
    valid.fill(1);
    view = {DTypeOf<T>::value,        logits.data(),  kBenchmarkRows,
            vocab_shard(vocab, 1, 0), targets.data(), valid.data()};
    view.vocab = vocab;
  }
  KernelRows(const KernelRows&) = delete;
  KernelRows& operator=(const KernelRows&) = delete;

  RowStatistics statistics() { return {shift.data(), sum.data(), target.data()}; }
  RowStatistics all_statistics() {
    return {shift.data(), sum.data(), target.data(), weighted.data(), min.data()};
  }
  /// All that there are.
  RowStatistics statistics_of_terms() {
    return {shift.data(), sum.data(),   target.data(), weighted.data(),
            min.data(),   total.data(), finite.data()};
  }

  std::unique_ptr<Device> device = make_cpu_device();  // first: it outlives its buffers
  DeviceArray<T> logits;
  DeviceArray<T> gradient;
  DeviceArray<float> shift;
  DeviceArray<float> sum;
  DeviceArray<float> target;
  DeviceArray<float> min;
  DeviceArray<float> weighted;
  DeviceArray<float> total;
  DeviceArray<float> finite;
  DeviceArray<float> grad;
  std::array<std::int32_t, kBenchmarkRows> targets;
  std::array<std::uint8_t, kBenchmarkRows> valid;
  LogitsRows view;
};

}  // namespace lossgrid
