// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/logits_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "statistics.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kRows = 10;

std::shared_ptr<const LogitsSource> source_of(const std::string& text) {
  const CaseSpec spec = parse_case(text);
  std::vector<std::int32_t> targets;
  for (int t = 0; t < kRows; ++t) targets.push_back((t * 31 + 5) % static_cast<int>(spec.vocab));
  targets.back() = -1;
  return make_random_logits(spec, targets);
}

template <typename T = double>
std::vector<T> read(const LogitsSource& source, std::int64_t token, std::int64_t begin,
                    std::int64_t end) {
  std::vector<T> out(static_cast<std::size_t>(end - begin), T(-12345));
  source.read(token, begin, std::span<T>(out));
  return out;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](T x, T y) {
           return std::bit_cast<std::array<char, sizeof(T)>>(x) ==
                  std::bit_cast<std::array<char, sizeof(T)>>(y);
         });
}

const std::vector<std::string> kLogitRegimes{
    "normal",   "flat",         "peaked",     "all_negative",  "offset",           "overflow",
    "ties",     "masked_vocab", "edge_mass",  "vanishing",     "denormal",         "finite_mask",
    "late_max", "lowest_mask",  "far_offset", "buried_target", "impossible_target"};

class EveryRegime : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::string text() const {
    return "vocab=1301 values=" + std::get<0>(GetParam()) + " dtype=" + std::get<1>(GetParam());
  }
};

TEST_P(EveryRegime, AnyPieceReadsAsThePieceOfTheRow) {
  const auto source = source_of(text());
  for (std::int64_t token = 0; token < kRows; ++token) {
    const std::vector<double> row = read(*source, token, 0, 1301);
    for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
             {0, 0}, {0, 1}, {1, 2}, {3, 5}, {2, 1301}, {7, 600}, {511, 1030}, {1300, 1301}}) {
      EXPECT_TRUE(same_bits(read(*source, token, begin, end),
                            std::vector<double>(row.begin() + begin, row.begin() + end)));
    }
  }
}

TEST_P(EveryRegime, FloatAndDoubleAgreeAndStandInTheDtype) {
  const auto source = source_of(text());
  const DType dtype = parse_case(text()).dtype;
  for (std::int64_t token = 0; token < kRows; ++token) {
    const std::vector<double> wide = read(*source, token, 0, 1301);
    const std::vector<float> narrow = read<float>(*source, token, 0, 1301);
    for (std::size_t v = 0; v < wide.size(); ++v) {
      ASSERT_EQ(static_cast<float>(wide[v]), narrow[v]);
      ASSERT_EQ(round_to(dtype, wide[v]), wide[v]);
      ASSERT_FALSE(std::isnan(wide[v]));
    }
  }
}

TEST_P(EveryRegime, RowsDifferAndSeedsDiffer) {
  const auto source = source_of(text());
  // float32 holds no differences beside 1e12.
  const bool all_same = std::get<0>(GetParam()) == "far_offset" && std::get<1>(GetParam()) != "f64";
  const std::vector<double> row = read(*source, 0, 0, 1301);
  EXPECT_EQ(same_bits(row, read(*source, 5, 0, 1301)), all_same);
  EXPECT_EQ(same_bits(row, read(*source_of(text() + " seed=7"), 0, 0, 1301)), all_same);
}

INSTANTIATE_TEST_SUITE_P(Values, EveryRegime,
                         testing::Combine(testing::ValuesIn(kLogitRegimes),
                                          testing::Values("f32", "bf16")));

std::vector<std::string> regimes_of_f64() {
  std::vector<std::string> regimes = kLogitRegimes;
  std::erase(regimes, "denormal");
  return regimes;
}

INSTANTIATE_TEST_SUITE_P(ValuesInF64, EveryRegime,
                         testing::Combine(testing::ValuesIn(regimes_of_f64()),
                                          testing::Values("f64")));

TEST(RandomLogits, HaveTheMomentsOfTheirRegime) {
  struct Expected {
    std::string text;
    double mean;
    double deviation;
  };
  for (const Expected& expected : std::vector<Expected>{
           {"values=normal", 0, 1},
           {"values=normal dtype=f64 scale=3", 0, 3},
           {"values=flat scale=2", 0, 2e-3},
           {"values=all_negative", -200, 1},
           {"values=offset", 1e4, 1},
           {"values=overflow", 0, 100},
           {"values=overflow scale=0.5", 0, 50},
           {"values=ties", 1, std::sqrt(2.0 / 3)},
           {"values=denormal", 0, 1e-39},
       }) {
    const auto row = read(*source_of("vocab=100000 " + expected.text), 3, 0, 100000);
    EXPECT_NEAR(mean(row), expected.mean, 0.02 * expected.deviation) << expected.text;
    EXPECT_NEAR(deviation(row), expected.deviation, 0.01 * expected.deviation) << expected.text;
  }
}

TEST(RandomLogits, OffsetOfBf16LeavesSeveralValues) {
  std::vector<double> row = read(*source_of("vocab=1000 values=offset dtype=bf16"), 0, 0, 1000);
  EXPECT_NEAR(mean(row), 256, 0.2);
  std::sort(row.begin(), row.end());
  EXPECT_GE(std::unique(row.begin(), row.end()) - row.begin(), 3);
}

TEST(RandomLogits, Float64IsNotFloat32InDisguise) {
  const auto row = read(*source_of("vocab=1000 dtype=f64"), 0, 0, 1000);
  const auto exact =
      std::count_if(row.begin(), row.end(), [](double x) { return x == static_cast<float>(x); });
  EXPECT_LT(exact, 10);
}

TEST(RandomLogits, TiesAreZeroOneAndTwo) {
  const auto row = read(*source_of("vocab=100 values=ties dtype=f64"), 0, 0, 100);
  for (const double wanted : {0.0, 1.0, 2.0})
    EXPECT_GT(std::count(row.begin(), row.end(), wanted), 9);
  EXPECT_TRUE(
      std::all_of(row.begin(), row.end(), [](double x) { return x == 0 || x == 1 || x == 2; }));
}

TEST(RandomLogits, PeakedTargetsHaveTheirProbability) {
  const std::vector<double> rest{1e-1, 1e-2, 1e-3, 1e-5, 1e-7};
  const auto source = source_of("vocab=20000 values=peaked dtype=f64");
  for (std::int64_t token = 0; token + 1 < kRows; ++token) {
    const auto p = softmax(read(*source, token, 0, 20000));
    double others = 0;
    for (std::size_t v = 0; v < p.size(); ++v) {
      if (static_cast<std::int64_t>(v) != (token * 31 + 5) % 20000) others += p[v];
    }
    EXPECT_NEAR(others / rest[token % 5], 1, 0.1) << token;
  }
  // Without a target nothing stands out.
  const auto last = read(*source, kRows - 1, 0, 20000);
  EXPECT_LT(*std::max_element(last.begin(), last.end()), 7);
}

TEST(RandomLogits, MaskedVocabIsMinusInfinityButForTheTarget) {
  const auto source = source_of("vocab=40 values=masked_vocab");
  for (std::int64_t token = 0; token < kRows; ++token) {
    const std::int64_t target = token + 1 < kRows ? (token * 31 + 5) % 40 : -1;
    const auto row = read(*source, token, 0, 40);
    for (std::int64_t v = 0; v < 40; ++v) {
      const bool masked = ((v >= 10 && v < 20) || v % 7 == 6) && v != target;
      EXPECT_EQ(std::isinf(row[v]), masked) << token << ' ' << v;
      if (masked) {
        EXPECT_LT(row[v], 0);
      }
    }
  }
}

TEST(RandomLogits, EveryMaskedRowKeepsAFiniteValue) {
  for (const std::string regime : {"masked_vocab", "finite_mask"}) {
    for (int vocab = 1; vocab <= 16; ++vocab) {
      const auto source = source_of("values=" + regime + " vocab=" + std::to_string(vocab));
      for (std::int64_t token = 0; token < kRows; ++token) {
        const auto row = read(*source, token, 0, vocab);
        EXPECT_TRUE(std::any_of(row.begin(), row.end(), [](double x) { return x > -1e3; }));
      }
    }
  }
}

TEST(RandomLogits, FiniteMaskIsMaskedVocabWithAFiniteNumber) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const std::string tail = " dtype=" + std::string(name(dtype));
    const auto infinite = source_of("vocab=600 values=masked_vocab" + tail);
    const auto finite = source_of("vocab=600 values=finite_mask" + tail);
    const double mask = round_to(dtype, -1e30);
    for (std::int64_t token = 0; token < kRows; ++token) {
      std::vector<double> expected = read(*infinite, token, 0, 600);
      for (double& value : expected) value = std::isinf(value) ? mask : value;
      EXPECT_TRUE(same_bits(read(*finite, token, 0, 600), expected)) << name(dtype) << ' ' << token;
    }
  }
}

TEST(RandomLogits, VanishingIsSubnormalInOddColumnsButForTheTarget) {
  const float tiny = std::numeric_limits<float>::min();
  for (const std::string text :
       {"vocab=5000 values=vanishing dtype=f32", "vocab=5000 values=vanishing dtype=bf16"}) {
    const auto source = source_of(text);
    for (std::int64_t token = 0; token < kRows; ++token) {
      const std::int64_t target = token + 1 < kRows ? (token * 31 + 5) % 5000 : -1;
      const auto row = read<float>(*source, token, 0, 5000);
      const float top = *std::max_element(row.begin(), row.end());
      for (std::int64_t v = 0; v < 5000; ++v) {
        const float e = std::exp(row[v] - top);
        if (v % 2 == 1 && v != target) {
          EXPECT_GT(e, 0) << text << ' ' << v;
          EXPECT_LT(e, tiny) << text << ' ' << v;
        } else {
          EXPECT_GT(e, 1e-6) << text << ' ' << v;
        }
      }
    }
  }
}

TEST(RandomLogits, DenormalIsSubnormalEverywhereAndManyNumbers) {
  for (const std::string dtype : {"f32", "bf16"}) {
    auto row = read<float>(*source_of("vocab=5000 values=denormal dtype=" + dtype), 2, 0, 5000);
    for (const float value : row) {
      EXPECT_LT(std::abs(value), std::numeric_limits<float>::min()) << dtype;
    }
    EXPECT_LT(std::count(row.begin(), row.end(), 0.0f), 500) << dtype;
    std::sort(row.begin(), row.end());
    EXPECT_GE(std::unique(row.begin(), row.end()) - row.begin(), 20) << dtype;
  }
}

TEST(RandomLogits, LateMaxIsLowInTheFirstColumns) {
  for (const auto& [vocab, low] : std::vector<std::pair<int, int>>{
           {3000, 1024}, {2048, 1024}, {2047, 1023}, {10, 5}, {3, 1}, {1, 0}}) {
    const std::string size = " vocab=" + std::to_string(vocab);
    const auto normal = source_of("values=normal dtype=f64" + size);
    const auto source = source_of("values=late_max dtype=f64" + size);
    for (std::int64_t token = 0; token < kRows; ++token) {
      std::vector<double> expected = read(*normal, token, 0, vocab);
      for (int v = 0; v < low; ++v) expected[v] += -50.0;
      EXPECT_TRUE(same_bits(read(*source, token, 0, vocab), expected)) << vocab;
    }
  }
}

TEST(RandomLogits, EdgesHoldMostOfTheMass) {
  const auto source = source_of("vocab=5000 values=edge_mass");
  for (std::int64_t token = 0; token < kRows; ++token) {
    const auto p = softmax(read(*source, token, 0, 5000));
    double edges = 0;
    for (const std::int32_t id : shard_edge_ids(5000)) edges += p[id];
    EXPECT_GT(edges, 0.9);
  }
}

TEST(RandomLogits, AVocabularyOfOneWorksInEveryRegime) {
  for (const std::string& regime : kLogitRegimes) {
    const auto row = read(*source_of("vocab=1 values=" + regime), 0, 0, 1);
    EXPECT_TRUE(std::isfinite(row[0])) << regime;
  }
}

TEST(RandomLogits, TheLargestVocabularyAndScaleStayInRange) {
  const auto source = source_of("vocab=2147483647 values=overflow scale=1e30");
  for (const double value : read(*source, 1, 2147483600, 2147483647)) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_GT(std::abs(value), 1e28);
  }
}

TEST(RandomLogits, LowestMaskIsTheLowestNumberOfTheDtype) {
  const std::map<std::string, double> lowest{
      {"f32", -0x1.fffffep127}, {"bf16", -0x1.fep127}, {"f64", -0x1.fffffffffffffp1023}};
  for (const auto& [dtype, value] : lowest) {
    const auto source = source_of("vocab=40 values=lowest_mask dtype=" + dtype);
    const auto row = read<double>(*source, 0, 0, 40);
    for (std::size_t v = 10; v < 20; ++v) EXPECT_TRUE(row[v] == value || row[v] > -6) << v;
    EXPECT_GE(std::count(row.begin(), row.end(), value), 13);  // the target is spared
    EXPECT_GT(row[0], -6);
  }
}

TEST(RandomLogits, FarOffsetKeepsDifferencesInFloat64Alone) {
  const auto row = read<double>(*source_of("vocab=40 values=far_offset dtype=f64"), 0, 0, 40);
  const auto [least, most] = std::minmax_element(row.begin(), row.end());
  EXPECT_NEAR(*least, -1e12, 7);
  EXPECT_GT(*most - *least, 1);
  const auto rounded = read<double>(*source_of("vocab=40 values=far_offset"), 0, 0, 40);
  EXPECT_EQ(std::count(rounded.begin(), rounded.end(), double{-1e12f}), 40);
}

TEST(RandomLogits, EveryThirdTargetIsLow) {
  for (const std::string values : {"buried_target", "impossible_target"}) {
    const double low = values == "buried_target" ? double{-1e30f} : -HUGE_VAL;
    const Problem problem = make_problem(parse_case("lens=7 vocab=40 values=" + values));
    for (std::int64_t t = 0; t < 6; ++t) {
      const auto row = read<double>(*problem.logits, t, 0, 40);
      EXPECT_EQ(std::count(row.begin(), row.end(), low), t % 3 == 1 ? 1 : 0) << t;
      if (t % 3 == 1) {
        EXPECT_EQ(row[static_cast<std::size_t>(problem.row_targets()[t])], low);
      }
    }
  }
}

/// Compares read_rows() of all rows, in reverse order, with read() of each.
void expect_same_rows(const Problem& problem) {
  const auto vocab = static_cast<std::size_t>(problem.spec.vocab);
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = problem.tokens() - 1; t >= 0; --t) tokens.push_back(t);
  std::vector<double> together(tokens.size() * vocab);
  problem.logits->read_rows(tokens, together);
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const std::vector<double> alone =
        read(*problem.logits, tokens[k], 0, static_cast<std::int64_t>(vocab));
    EXPECT_EQ(std::memcmp(together.data() + k * vocab, alone.data(), vocab * sizeof(double)), 0)
        << k;
  }
}

/// 23 rows are two blocks of a product and a rest.
TEST(LogitsSource, RowsThatAreReadTogetherHaveTheBitsOfOneByOne) {
  for (const char* text : {"lens=9+14 vocab=37", "lens=9+14 vocab=37 hidden=19",
                           "lens=9+14 vocab=37 hidden=16 lm_head_bias=true dtype=bf16",
                           "lens=9+14 vocab=37 hidden=19 logit_softcap=3 temperature=0.7",
                           "lens=9+14 vocab=37 hidden=5 top_k=9 filtered_targets=zero"}) {
    SCOPED_TRACE(text);
    const Problem problem = make_problem(parse_case(text));
    EXPECT_EQ(problem.logits->rows_at_once(), problem.projection ? 8 : 1);
    expect_same_rows(problem);
    expect_same_rows(take_part(problem, {.sequences = {1}}, 1, 1));
  }
}

}  // namespace
}  // namespace lossgrid
