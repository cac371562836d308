// SPDX-License-Identifier: Apache-2.0
// 2^t and exp of the row kernels in units of the last place, over numbers of all sizes, on every
// instruction set that this processor has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_exp2_test.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "impls/kernels/cpu/row_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// out := 2^x, `count` a multiple of kLanes.
void powers(const float* x, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; i += kVectorSize) {
    hn::StoreU(exp2_of(hn::LoadU(Floats(), x + i)), Floats(), out + i);
  }
}

/// out := exp(x), as it is made with a shift of 0.
void exponentials(const float* x, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; i += kVectorSize) {
    const auto t = distance<HWY_NATIVE_FMA != 0>(hn::LoadU(Floats(), x + i), hn::Zero(Floats()));
    hn::StoreU(exp2_of(t), Floats(), out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "impls/kernels/cpu/flush_denormals.h"
#include "kernel_targets.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

HWY_EXPORT(powers);
HWY_EXPORT(exponentials);

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::uint64_t kStep = kSanitized ? 99991 : 997;
constexpr float kLarge = 0x1.fffffp126f;

class VectorExp2 : public OnEveryTarget {};

/// As kernels call it.
std::vector<float> power_of(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  const FlushDenormals flush;
  HWY_DYNAMIC_DISPATCH(powers)(x.data(), x.size(), out.data());
  return out;
}

std::vector<float> exp_of(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  const FlushDenormals flush;
  HWY_DYNAMIC_DISPATCH(exponentials)(x.data(), x.size(), out.data());
  return out;
}

double ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  const double unit = std::nextafter(nearest, kInf) - static_cast<double>(nearest);
  return std::abs(got - want) / unit;
}

/// Every kStep-th number in [low, high), of both signs where both are in it.
template <typename F>
void for_numbers(float low, float high, F&& f) {
  std::vector<float> block;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kStep) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (x >= low && x < high) block.push_back(x);
    if (block.size() == 4096) {
      f(block);
      block.clear();
    }
  }
  block.resize((block.size() + 63) / 64 * 64, low);
  f(block);
}

TEST_P(VectorExp2, WithinThreeUlpWhereTheResultIsNormal) {
  double worst = 0;
  for_numbers(-125.99f, 126.99f, [&](const std::vector<float>& t) {
    const std::vector<float> got = power_of(t);
    for (std::size_t i = 0; i < t.size(); ++i) {
      worst = std::max(worst, ulps(got[i], std::exp2(static_cast<double>(t[i]))));
    }
  });
  EXPECT_LE(worst, 3.0);
  EXPECT_GT(worst, 0.5);  // it is not exp2 itself that was tested
}

TEST_P(VectorExp2, ZeroBelowTheNormalNumbers) {
  for_numbers(-kInf, -126.001f, [&](const std::vector<float>& t) {
    for (const float got : power_of(t)) ASSERT_EQ(got, 0);
  });
  EXPECT_EQ(power_of(std::vector<float>(64, -kInf))[0], 0);
}

TEST_P(VectorExp2, AtLeastTwoToThe127BeyondIt) {
  for_numbers(127, kInf, [&](const std::vector<float>& t) {
    for (const float got : power_of(t)) ASSERT_GE(got, kLarge);
  });
  EXPECT_GE(power_of(std::vector<float>(64, kInf))[0], kLarge);
}

TEST_P(VectorExp2, NanStays) {
  EXPECT_TRUE(std::isnan(power_of(std::vector<float>(64, std::nanf("")))[0]));
}

TEST_P(VectorExp2, ExpLosesWhatTheRoundingOfItsExponentCosts) {
  struct Range {
    float low;
    float high;
    double most;
  };
  for (const Range range : {Range{-1, 0, 4}, Range{-8, -1, 12}, Range{-20, -8, 24},
                            Range{-87, -20, 100}, Range{0, 9, 16}}) {
    double worst = 0;
    for_numbers(range.low, range.high, [&](const std::vector<float>& x) {
      const std::vector<float> got = exp_of(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        worst = std::max(worst, ulps(got[i], std::exp(static_cast<double>(x[i]))));
      }
    });
    EXPECT_LE(worst, range.most) << range.low << " to " << range.high;
    RecordProperty(fmt::format("worst ulp from {} to {}", range.low, range.high),
                   fmt::format("{:.1f}", worst));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, VectorExp2, testing::ValuesIn(targets_here()), target_name);

}  // namespace
}  // namespace lossgrid
#endif
