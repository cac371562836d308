// SPDX-License-Identifier: Apache-2.0
// Measures both ways to multiply by a bf16 weight, on one product of the size of a chunk of tokens
// and vocabulary: 256 tokens, 512 ids, hidden size 1024. The product is short, so that some runs of
// each way are not interrupted on a busy machine. The ways take turns, so that both see the same
// changes of the machine's speed; the best time of each way counts. Takes about a tenth of a
// second.
#include <algorithm>
#include <chrono>
#include <vector>

#include "harness/core/error.h"
#include "harness/device/gemm.h"

namespace lossgrid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kIds = 512;
constexpr std::int64_t kHidden = 1024;
constexpr int kLeastRepetitions = 3;
constexpr std::chrono::milliseconds kEnough{100};

double flops(const Gemm& product, std::span<float> workspace) {
  const Clock::time_point start = Clock::now();
  cpu_kernels().gemm(product, workspace);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return 2.0 * kTokens * kIds * kHidden / seconds.count();
}

Bf16GemmRates measure() {
  const std::vector<float> hidden_f32(kTokens * kHidden, 1.0f);
  const std::vector<bf16> hidden_bf16(kTokens * kHidden, bf16(1.0f));
  const std::vector<bf16> weight(kIds * kHidden, bf16(1.0f));
  std::vector<float> logits(kTokens * kIds);
  std::vector<float> workspace(static_cast<std::size_t>(
      cpu_kernels().gemm_workspace_floats(DType::f32, DType::bf16, kIds, kHidden)));

  const Gemm converted{.m = kTokens,
                       .n = kIds,
                       .k = kHidden,
                       .a = {DType::f32, hidden_f32.data(), kHidden},
                       .b = {DType::bf16, weight.data(), kHidden, true},
                       .c = logits.data(),
                       .stride = kIds};
  Gemm native = converted;
  native.a = {DType::bf16, hidden_bf16.data(), kHidden};

  Bf16GemmRates rates;
  try {
    cpu_kernels().gemm(native, {});
    rates.native_supported = true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
  }
  const Clock::time_point start = Clock::now();
  for (int done = 0; done < kLeastRepetitions || Clock::now() - start < kEnough; ++done) {
    rates.converted_flops = std::max(rates.converted_flops, flops(converted, workspace));
    if (rates.native_supported) {
      rates.native_flops = std::max(rates.native_flops, flops(native, {}));
    }
  }
  return rates;
}

}  // namespace

const Bf16GemmRates& bf16_gemm_rates() {
  static const Bf16GemmRates rates = measure();
  return rates;
}

}  // namespace lossgrid
