// SPDX-License-Identifier: Apache-2.0
// Trials on emulated GPUs whose threads are fibers, and whose streams run at other times than at
// waits: the same bits as ever.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fibers/emulation.h"
#include "harness/core/process/sanitizers.h"
#include "harness/device/emulated_device.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/case/case_sweep.h"
#include "harness/runner/run.h"
#include "harness/runner/trial/trial.h"
#include "impls/kernels/cuda/hidden_kernels-inl.h"
#include "impls/kernels/cuda/rounded_gradient-inl.h"

namespace lossgrid {
namespace {

/// A way to run kernels; the destructor goes back to the usual one.
class Emulation {
 public:
  Emulation(std::optional<FiberOrder> fibers, StreamOrder streams) {
    fiber_order() = fibers;
    emulated_stream_order() = streams;
  }
  ~Emulation() {
    fiber_order().reset();
    emulated_stream_order() = StreamOrder::late;
  }
};

/// Appends the bits of numbers; all NaNs are one.
void append_bits(const std::vector<double>& numbers, std::vector<std::uint64_t>& bits) {
  for (const double number : numbers) {
    bits.push_back(std::isnan(number) ? 1 : std::bit_cast<std::uint64_t>(number));
  }
}

/// Returns the bits of all outputs of a trial; none where it has none.
std::vector<std::uint64_t> outputs_of(const TrialOutcome& trial) {
  if (!trial.outputs) return {};
  const BundleResults& out = *trial.outputs;
  std::vector<double> metrics{out.loss.value_or(0)};
  for (const auto& [name, value] : out.metrics) metrics.push_back(value);
  std::vector<std::uint64_t> bits;
  for (const std::vector<double>* numbers : std::initializer_list<const std::vector<double>*>{
           &metrics, &out.logprobs, &out.entropy, &out.grad_logits, &out.grad_hidden,
           &out.grad_weight, &out.grad_bias}) {
    append_bits(*numbers, bits);
  }
  return bits;
}

/// Returns the bits of all outputs of a trial, which must pass; none for one that is skipped.
std::vector<std::uint64_t> run(const PreparedProblem& prepared, const std::string& implementation,
                               const std::string& grid, std::optional<FiberOrder> fibers,
                               StreamOrder streams) {
  const Emulation emulation(fibers, streams);
  TrialSetup setup = make_trial(prepared, implementation, parse_grid(grid), Backend::cuda_emulated);
  setup.keep_outputs = true;
  const TrialOutcome trial = run_trial(setup, std::chrono::seconds(300));
  if (trial.record.status == TrialStatus::skipped) return {};
  EXPECT_EQ(trial.record.status, TrialStatus::passed) << trial.record.reason << "\n"
                                                      << trial.record.reproduce;
  return outputs_of(trial);
}

/// Names the number of the first difference: arrays of bits are too long to be printed.
testing::AssertionResult are_same(const std::vector<std::uint64_t>& found,
                                  const std::vector<std::uint64_t>& expected) {
  if (found.size() != expected.size()) {
    return testing::AssertionFailure() << found.size() << " numbers, not " << expected.size();
  }
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (found[k] == expected[k]) continue;
    return testing::AssertionFailure()
           << "number " << k << " of " << found.size() << ": " << std::bit_cast<double>(found[k])
           << ", not " << std::bit_cast<double>(expected[k]);
  }
  return testing::AssertionSuccess();
}

PreparedProblem prepare_case(const std::string& text) {
  return prepare(make_problem(parse_case(text)));
}

/// Cases whose kernels are all that there are; every row begins anywhere.
const std::vector<std::string>& cases() {
  static const std::vector<std::string> all{
      "lens=5+1+3 vocab=67",
      "lens=5+1+3 vocab=67 dtype=bf16 statistics=false",
      "lens=5+1+3 vocab=67 objective.label_smoothing=0.1 objective.z_loss_coefficient=0.01 "
      "predictions=true",
      "lens=5+2+3 vocab=67 objective=clipped_pg objective.entropy_coefficient=0.1 "
      "objective.sequence_level_importance_ratios=true objective.token_level_loss=false",
      "lens=5+2+3 vocab=67 top_k=20 top_p=0.9 temperature=0.7",
      "lens=5+2+3 vocab=67 objective=distill objective.kl_type=jsd",
      "lens=5+2+3 vocab=67 objective=distill objective.kl_type=mixed teacher_topk=4",
      "lens=5+2+3 vocab=67 objective=on_policy_distill",
      "lens=5+3+2+4 vocab=67 objective=dpo",
      "lens=5+2+3 vocab=67 hidden=8 dtype=bf16",
      "lens=5+2+3 vocab=67 hidden=8 lm_head_bias=true logit_softcap=5",
      "lens=5+2+3+2 hidden=8 objective=value head=value objective.cliprange_value=0.2",
      "lens=5+2+3+2 hidden=8 objective=bradley_terry head=score",
      "lens=5+2+3 vocab=67 hidden=8 objective=distill teacher_hidden=12",
  };
  return all;
}

std::vector<std::string> implementations(const PreparedProblem& prepared) {
  std::vector<std::string> names = default_implementations(prepared.problem->spec.hidden > 0);
  if (prepared.problem->spec.hidden == 0) names.push_back("one_sweep:in_place=true");
  return names;
}

class EmulatedTrials : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedTrials, HaveTheSameBitsInAnyOrder) {
  const PreparedProblem prepared = prepare_case(GetParam());
  int compared = 0;
  for (const std::string& name : implementations(prepared)) {
    if (LOSSGRID_TSAN && name == "per_sequence") continue;  // the kernels of fused, more often
    const auto bits = [&](std::optional<FiberOrder> fibers, StreamOrder streams) {
      return run(prepared, name, LOSSGRID_TSAN ? "tp2cp1" : "tp2cp2", fibers, streams);
    };
    if (LOSSGRID_TSAN) {
      compared += bits(FiberOrder{7}, StreamOrder::late).empty() ? 0 : 1;
      continue;
    }
    const std::vector<std::uint64_t> expected = bits(std::nullopt, StreamOrder::late);
    if (expected.empty()) continue;
    ++compared;
    EXPECT_TRUE(are_same(bits(FiberOrder{1}, StreamOrder::late), expected)) << name;
    EXPECT_TRUE(are_same(bits(std::nullopt, StreamOrder::eager), expected)) << name;
    EXPECT_TRUE(are_same(bits(std::nullopt, StreamOrder::by_parts), expected)) << name;
  }
  EXPECT_GE(compared, 1);
}

INSTANTIATE_TEST_SUITE_P(OfKernels, EmulatedTrials, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return std::to_string(info.index);
                         });

TEST(EmulatedTrialsSetup, EveryLaunchOfTheProgramIsNamed) {
  EXPECT_GE(emulation_launches(), 36);
}

/// A row that is longer than a turn of a block and than what fits on the chip.
TEST(EmulatedTrialsOfLongRows, HaveTheSameBitsInAnyOrder) {
  if (LOSSGRID_TSAN) GTEST_SKIP() << "sanitizers are too slow";
  for (const char* text : {"lens=2+1+2 vocab=20011 dtype=bf16 statistics=false",
                           "lens=2+1+2 vocab=20008 statistics=false"}) {
    const PreparedProblem prepared = prepare_case(text);
    for (const char* name : {"fused", "one_sweep"}) {
      const auto expected = run(prepared, name, "tp1cp1", std::nullopt, StreamOrder::late);
      EXPECT_FALSE(expected.empty());
      EXPECT_TRUE(
          are_same(run(prepared, name, "tp1cp1", FiberOrder{3}, StreamOrder::late), expected));
    }
  }
}

/// Returns true if a trial without that barrier in every block has other bits, or fails, in one of
/// some orders.
bool barrier_is_needed(const PreparedProblem& prepared, const std::string& implementation,
                       int barrier) {
  const auto bits = [&](std::optional<FiberOrder> fibers) {
    const Emulation emulation(fibers, StreamOrder::late);
    TrialSetup setup =
        make_trial(prepared, implementation, parse_grid("tp1cp1"), Backend::cuda_emulated);
    setup.keep_outputs = true;
    return outputs_of(run_trial(setup, std::chrono::seconds(300)));
  };
  const std::vector<std::uint64_t> expected = bits(std::nullopt);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    if (!are_same(bits(FiberOrder{seed, barrier}), expected)) return true;
  }
  return false;
}

/// One after the other: four of the reduction, one before the logits are overwritten in place, one
/// before the element of the target.
TEST(EmulatedTrialsBarriers, AreAllNeededByAKernel) {
  if (LOSSGRID_TSAN) GTEST_SKIP() << "a data race ends the process";
  const PreparedProblem prepared = prepare_case("lens=5+1+3 vocab=2051 statistics=false");
  for (int barrier = 0; barrier < 6; ++barrier) {
    EXPECT_TRUE(barrier_is_needed(prepared, "one_sweep:in_place=true", barrier)) << barrier;
  }
  EXPECT_FALSE(barrier_is_needed(prepared, "one_sweep:in_place=true", 6)) << "there is none";
}

/// Rows of three whole turns of groups and a rest, in place. Only the first turn overwrites what it
/// has read itself; a later barrier stands in for any other one that is left out.
TEST(EmulatedRounding, HasTheSameBitsInAnyOrderAndNeedsItsFirstBarrier) {
  constexpr std::int64_t kRows = 2;
  constexpr std::int64_t kSize = 3 * kGroupSize * kBlockThreads + 5;
  const auto rounded = [](const auto& launcher) {
    std::vector<float> data(kRows * kSize + 4);
    auto* begin = data.data();
    while (reinterpret_cast<std::uintptr_t>(begin) % kVectorBytes != 0) ++begin;
    for (std::int64_t k = 0; k < kRows * kSize; ++k) begin[k] = 1.0f / static_cast<float>(k + 3);
    LaunchRoundRows{begin, kRows, kSize}(launcher);
    return std::vector<float>(begin, begin + kRows * kSize);
  };
  const std::vector<float> expected = rounded(HostLauncher());
  const auto same = [&](std::uint64_t seed, int skipped_barrier) {
    const std::vector<float> found = rounded(FiberLauncher({seed, skipped_barrier}));
    return std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0;
  };
  for (std::uint64_t seed = 0; seed < 4; ++seed) EXPECT_TRUE(same(seed, -1));
  if (LOSSGRID_TSAN) return;  // a data race
  bool needed = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) needed = needed || !same(seed, 0);
  EXPECT_TRUE(needed);
}

/// Over its logits, the first row is two turns of groups, of which the second is not full, and a
/// rest with the target, which the last barrier stands before. The second row is not aligned.
TEST(EmulatedRoundedGradient, HasTheSameBitsInAnyOrderAndNeedsItsFirstAndLastBarrier) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kSize = 3 * kGroupSize * kBlockThreads + 5;
  const std::vector<std::int32_t> targets{kSize - 3, 12'000, -1};
  const std::vector<float> shift{3, 2, 1};
  const std::vector<float> sum{7, 8, 9};
  const std::vector<float> grad{0.3f, -2, 0};
  const auto written = [&](const auto& launcher) {
    std::vector<float> data(kRows * kSize + 4);
    auto* begin = data.data();
    while (reinterpret_cast<std::uintptr_t>(begin) % kVectorBytes != 0) ++begin;
    for (std::int64_t k = 0; k < kRows * kSize; ++k) begin[k] = 1.0f / static_cast<float>(k + 3);
    const CudaRows rows{DType::f32, begin, kRows, kSize, kSize - 1, 0, targets.data(), nullptr};
    LaunchRoundedGradient{rows, shift.data(), sum.data(), grad.data(), begin}(launcher);
    return std::vector<float>(begin, begin + kRows * kSize);
  };
  const std::vector<float> expected = written(HostLauncher());
  const auto same = [&](std::uint64_t seed, int skipped_barrier) {
    const std::vector<float> found = written(FiberLauncher({seed, skipped_barrier}));
    return std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0;
  };
  for (std::uint64_t seed = 0; seed < 4; ++seed) EXPECT_TRUE(same(seed, -1));
  if (LOSSGRID_TSAN) return;  // a data race
  for (const int barrier : {0, 3}) {
    bool needed = false;
    for (std::uint64_t seed = 0; seed < 20; ++seed) needed = needed || !same(seed, barrier);
    EXPECT_TRUE(needed) << barrier;
  }
}

}  // namespace
}  // namespace lossgrid
