// SPDX-License-Identifier: Apache-2.0
// Kept sets of rows: the filters of a sampler by hand, their bits in vocab shards, and the logits
// outside of them.
#include "harness/problem/values/sampling_mask.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/problem/values/logits_source.h"

namespace lossgrid {
namespace {

constexpr double kMaskInf = std::numeric_limits<double>::infinity();

/// Returns a 1 for every id that is kept.
std::string kept_by(const SamplingFilter& filter, const std::vector<double>& z) {
  std::vector<std::uint8_t> kept(z.size());
  filter_row(z, filter, kept);
  std::string bits;
  for (const std::uint8_t bit : kept) bits += bit != 0 ? '1' : '0';
  return bits;
}

/// Logits with these probabilities.
std::vector<double> logits_with(const std::vector<double>& p) {
  std::vector<double> z;
  for (const double one : p) z.push_back(std::log(one) + 3);
  return z;
}

TEST(SamplingFilter, TopKKeepsTheLargestAndTiesWithTheSmallestOfThem) {
  const std::vector<double> z{1, 4, 2, 2, -1, 2, 3};
  EXPECT_EQ(kept_by({1, 1}, z), "0100000");
  EXPECT_EQ(kept_by({2, 1}, z), "0100001");
  for (const std::int64_t k : {3, 4, 5}) EXPECT_EQ(kept_by({k, 1}, z), "0111011") << k;
  EXPECT_EQ(kept_by({6, 1}, z), "1111011");
  EXPECT_EQ(kept_by({7, 1}, z), "1111111");
  EXPECT_EQ(kept_by({0, 1}, z), "1111111");
}

TEST(SamplingFilter, TopPKeepsWhatTheLargestProbabilitiesNeedToReachIt) {
  const std::vector<double> z = logits_with({0.1, 0.4, 0.05, 0.3, 0.15});
  EXPECT_EQ(kept_by({0, 0.39}, z), "01000");
  EXPECT_EQ(kept_by({0, 0.41}, z), "01010");
  EXPECT_EQ(kept_by({0, 0.69}, z), "01010");
  EXPECT_EQ(kept_by({0, 0.71}, z), "01011");
  EXPECT_EQ(kept_by({0, 0.94}, z), "11011");
  EXPECT_EQ(kept_by({0, 0.96}, z), "11111");
  EXPECT_EQ(kept_by({0, 1}, z), "11111");
}

/// In binary fractions: the ascending sums 1/8, 1/4, 1/2, 1 are exact.
TEST(SamplingFilter, ASumThatIsExactlyTheRestIsLeftOut) {
  const std::vector<double> z{0, 0, std::log(2.0), std::log(4.0)};
  EXPECT_EQ(kept_by({0, 0.5}, z), "0001");
  EXPECT_EQ(kept_by({0, 0.75}, z), "0011");
  // The later one of two equal ids is left out first.
  EXPECT_EQ(kept_by({0, 0.875}, z), "1011");
}

TEST(SamplingFilter, KeepsTheLargestHoweverSmallPIs) {
  EXPECT_EQ(kept_by({0, 1e-300}, {0, 2, 1}), "010");
  EXPECT_EQ(kept_by({0, 1e-300}, {0, 0, 0}), "100");
  EXPECT_EQ(kept_by({0, 0.5}, {-kMaskInf, 0, -kMaskInf}), "010");
  EXPECT_EQ(kept_by({0, 0.5}, {1e300, 0, -1e300}), "100");
}

/// p counts over the ids that top k keeps: 4/7 of the first of three.
TEST(SamplingFilter, TopPIsOfWhatTopKKeeps) {
  const std::vector<double> z = logits_with({0.4, 0.2, 0.1, 0.3});
  EXPECT_EQ(kept_by({0, 0.55}, z), "1001");
  EXPECT_EQ(kept_by({2, 0.55}, z), "1000");
}

TEST(SamplingMask, HoldsABitForEachRowAndId) {
  SamplingMask mask(2, 130);
  EXPECT_FALSE(mask.keeps_any(0));
  for (const std::int64_t id : {0, 63, 64, 129}) mask.keep(0, id);
  mask.keep(1, 65);
  for (std::int64_t v = 0; v < 130; ++v) {
    EXPECT_EQ(mask.keeps(0, v), v == 0 || v == 63 || v == 64 || v == 129) << v;
    EXPECT_EQ(mask.keeps(1, v), v == 65) << v;
  }
  EXPECT_TRUE(mask.keeps_any(0));
}

TEST(SamplingMask, ReadsTheBitsOfAShardWithOnesBehindThem) {
  SamplingMask mask(1, 130);
  for (const std::int64_t id : {5, 60, 64, 71, 129}) mask.keep(0, id);
  std::vector<std::uint64_t> words(2);
  mask.read(0, 60, 66, words);
  EXPECT_EQ(words[0], (std::uint64_t{1} << 0) | (std::uint64_t{1} << 4) | (std::uint64_t{1} << 11));
  EXPECT_EQ(words[1], ~std::uint64_t{3});
  mask.read(0, 130, 0, words);
  EXPECT_EQ(words[0], ~std::uint64_t{0});
}

/// Logits 10 t + v.
class CountingLogits final : public LogitsSource {
 public:
  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = static_cast<double>(10 * token + begin) + static_cast<double>(k);
    }
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = static_cast<float>(10 * token + begin) + static_cast<float>(k);
    }
  }
};

TEST(SamplingMask, FiltersTheLogitsOfEachRow) {
  const auto mask = make_sampling_mask(CountingLogits(), 2, 4, {2, 1});
  for (std::int64_t t = 0; t < 2; ++t) {
    for (std::int64_t v = 0; v < 4; ++v) EXPECT_EQ(mask->keeps(t, v), v >= 2) << t << " " << v;
  }
}

TEST(SamplingMask, MaskedLogitsAreMinusInfinityOutside) {
  auto mask = std::make_shared<SamplingMask>(3, 5);
  mask->keep(2, 1);
  mask->keep(2, 3);
  const auto masked = make_masked_logits(std::make_shared<CountingLogits>(), mask);
  std::vector<double> z(4);
  masked->read(2, 1, std::span<double>(z));
  EXPECT_THAT(z, testing::ElementsAre(21, -kMaskInf, 23, -kMaskInf));
  std::vector<float> narrow(2);
  masked->read(2, 3, std::span<float>(narrow));
  EXPECT_THAT(narrow, testing::ElementsAre(23, -std::numeric_limits<float>::infinity()));
}

}  // namespace
}  // namespace lossgrid
