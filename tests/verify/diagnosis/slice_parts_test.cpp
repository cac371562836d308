// SPDX-License-Identifier: Apache-2.0
// Slices of a bigram's gradient on 2 x 2 ranks over DP and CP, of which each has the rows t with
// t % 4 as its number.
#include "harness/verify/diagnosis/slice_parts.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/verify/diagnosis/weight_parts.h"
#include "linear_emulation.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int kSliceRanks = 4;

class SlicePartsTest : public ::testing::Test {
 protected:
  SlicePartsTest() {
    for (std::int64_t t = 0; t < case_.problem.tokens(); ++t) {
      ranks_.push_back(static_cast<int>(t % kSliceRanks));
    }
    parts_ = true_weight_parts(case_.problem, case_.truth, all_, ranks_, kSliceRanks);
    const std::size_t slice = parts_[0].size() / kSliceRanks;
    for (std::size_t k = 0; k < parts_[0].size(); ++k) {
      holders_.push_back(static_cast<int>(k / slice));
    }
    double valid = 0;
    token_shares_.assign(kSliceRanks, 0.0);
    for (std::int64_t t = 0; t < case_.problem.tokens(); ++t) {
      if (!case_.truth.rows[t].valid) continue;
      token_shares_[static_cast<std::size_t>(ranks_[t])] += 1;
      valid += 1;
    }
    for (double& share : token_shares_) share /= valid;
  }

  /// Part of the true gradient of one element from the rows of some ranks.
  double part(std::size_t element, std::vector<int> ranks) const {
    double sum = 0;
    for (const int rank : ranks) sum += parts_[static_cast<std::size_t>(rank)][element];
    return sum;
  }

  /// Returns the sentence about slices of `value(rank, element)`, and expects that shards of the
  /// vocabulary give the same.
  std::optional<std::string> sentence(
      const std::function<double(int rank, std::size_t element)>& value) const {
    std::vector<double> got;
    for (std::size_t k = 0; k < holders_.size(); ++k) got.push_back(value(holders_[k], k));
    const auto whole = sums(all_, got, holders_);
    auto shards = sums(vocab_shard(24, 2, 0), std::span(got).first(got.size() / 2),
                       std::span(holders_).first(got.size() / 2));
    shards.add(sums(vocab_shard(24, 2, 1), std::span(got).subspan(got.size() / 2),
                    std::span(holders_).subspan(got.size() / 2)));
    const auto text = slice_sentence(whole, token_shares_);
    EXPECT_EQ(slice_sentence(shards, token_shares_), text);
    return text;
  }

  SliceParts sums(const VocabShard& shard, std::span<const double> got,
                  std::span<const int> holders) const {
    return *slice_parts(case_.problem, case_.truth, shard, got, holders, ranks_, 2, 2);
  }

  const LinearCase case_ = make_linear_case(
      "lens=9+14+5+7 mask=all vocab=24 hidden=24 hidden_values=one_hot temperature=0.8");
  const VocabShard all_ = vocab_shard(24, 1, 0);
  std::vector<int> ranks_;
  std::vector<std::vector<double>> parts_;
  std::vector<int> holders_;
  std::vector<double> token_shares_;
};

TEST_F(SlicePartsTest, NameTheMissingReduction) {
  EXPECT_EQ(sentence([&](int rank, std::size_t k) { return part(k, {rank}); }),
            "each rank's slice of grad_weight is that of the rows of its own rank alone: the "
            "slices were taken before the gradient was reduced over DP and CP");
  EXPECT_THAT(sentence([&](int rank, std::size_t k) {
                return 4 * part(k, {rank / 2 * 2, rank / 2 * 2 + 1});
              }),
              Optional(HasSubstr("is 4 x that of the rows of its own dp rank alone: ")));
  EXPECT_THAT(sentence([&](int rank, std::size_t k) {
                return part(k, {rank % 2, rank % 2 + 2});
              }),
              Optional(HasSubstr("of the rows of its own cp rank alone: ")));
}

TEST_F(SlicePartsTest, NameMeansOfOwnRows) {
  EXPECT_THAT(sentence([&](int rank, std::size_t k) {
                return part(k, {rank}) / token_shares_[static_cast<std::size_t>(rank)];
              }),
              Optional(HasSubstr("is a mean over the valid tokens of its own rank alone: ")));
}

TEST_F(SlicePartsTest, NameNothingElse) {
  const auto truth = [&](int, std::size_t k) { return part(k, {0, 1, 2, 3}); };
  EXPECT_EQ(sentence(truth), std::nullopt);
  EXPECT_EQ(sentence([&](int rank, std::size_t k) { return (rank + 1) * part(k, {rank}); }),
            std::nullopt);
  EXPECT_EQ(sentence([&](int rank, std::size_t k) {
              return part(k, {rank}) + 1e-4 * std::sin(static_cast<double>(k));
            }),
            std::nullopt);
  EXPECT_EQ(sentence([](int, std::size_t) { return 0.0; }), std::nullopt);
}

}  // namespace
}  // namespace lossgrid
