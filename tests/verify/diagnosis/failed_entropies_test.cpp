// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/failed_entropies.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/problem/batch/sharding.h"
#include "harness/verify/diagnosis/diagnosis.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FailedEntropiesTest : public ::testing::Test {
 protected:
  explicit FailedEntropiesTest(
      const std::string& text = "lens=9+7 vocab=37 temperature=0.8 mask=all")
      : problem_(make_problem(parse_case(text))) {
    truth_.rows = compute_rows(problem_, 1);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(problem_.tokens()));
    std::iota(rows.begin(), rows.end(), 0);
    places_ = place_rows(problem_, problem_.cu_seqlens, rows);
  }

  using Change =
      std::function<double(std::span<const double> logits, const RowTruth&, std::size_t)>;

  FailedEntropies failed(const Change& change, int tp = 1, int tp_rank = 0) const {
    std::vector<float> got(places_.size(), 0.0f);
    std::vector<double> logits(static_cast<std::size_t>(problem_.spec.vocab));
    for (std::size_t k = 0; k < got.size(); ++k) {
      problem_.logits->read(places_[k].row, 0, std::span<double>(logits));
      got[k] = static_cast<float>(change(logits, truth_.rows[places_[k].row], k));
    }
    return look_at_entropies(problem_, truth_, places_, tp, tp_rank, got, 12);
  }

  /// Returns the sentences about a rank with wrong entropies beside a right one.
  std::vector<std::string> sentences(const Change& change, int tp = 1, int tp_rank = 0) const {
    FailureFacts facts;
    facts.entropies = {{{0, 0, 0, 0}, {}}, {{0, 1, 0, 0}, failed(change, tp, tp_rank)}};
    return explain(facts);
  }

  Problem problem_;
  Truth truth_;
  std::vector<RowPlace> places_;
};

/// - sum p ln p for p = exp(x) / sum, by the plain formula.
double plain_entropy(std::span<const double> logits, double sum) {
  double out = 0;
  for (const double x : logits) out -= std::exp(x) / sum * std::log(std::exp(x) / sum);
  return out;
}

double plain_sum(std::span<const double> logits) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  return sum;
}

TEST_F(FailedEntropiesTest, RightOnesDoNotFail) {
  EXPECT_EQ(failed([](auto, const RowTruth& row, std::size_t) { return row.entropy(); }).count, 0);
}

TEST_F(FailedEntropiesTest, MistakesAreNamed) {
  const VocabShard own = vocab_shard(37, 2, 1);
  const auto shard = [&](std::span<const double> logits) {
    return logits.subspan(static_cast<std::size_t>(own.begin),
                          static_cast<std::size_t>(own.valid()));
  };
  const std::vector<std::pair<Change, std::string>> mistakes{
      {[](auto, const RowTruth&, std::size_t) { return 0.0; },
       "wrong entropies where it would show, 14 are what they would be if the entropy of these "
       "rows were never written, or masked away: 0?"},
      {[&](auto logits, const RowTruth&, std::size_t) {
         return plain_entropy(shard(logits), plain_sum(logits));
       },
       "the sum of p ln p were that of the own vocabulary shard"},
      {[&](auto logits, const RowTruth&, std::size_t) {
         return plain_entropy(shard(logits), plain_sum(shard(logits)));
       },
       "of the softmax of the own vocabulary shard alone"},
      {[](auto, const RowTruth& row, std::size_t) { return -row.entropy(); },
       "with the other sign"},
      {[&](auto, const RowTruth&, std::size_t k) {
         return truth_.rows[places_[k > 0 ? k - 1 : 8].row].entropy();
       },
       "for another row"},
      {[](auto logits, const RowTruth&, std::size_t) {
         std::vector<double> scaled(logits.begin(), logits.end());
         for (double& x : scaled) x *= 0.8;
         return plain_entropy(scaled, plain_sum(scaled));
       },
       "at temperature 1"},
      {[](auto, const RowTruth& row, std::size_t) { return row.entropy() / std::log(2.0); },
       "in bits"}};
  for (const auto& [change, cause] : mistakes) {
    EXPECT_THAT(sentences(change, 2, 1),
                ElementsAre(HasSubstr(cause), "entropies are wrong on cp rank 1 only"));
  }
}

TEST_F(FailedEntropiesTest, UnknownMistakesHaveNoSentence) {
  const auto unknown = [](auto, const RowTruth& row, std::size_t) { return row.entropy() * 1.1; };
  EXPECT_THAT(sentences(unknown), ElementsAre("entropies are wrong on cp rank 1 only"));
  FailureFacts facts;
  facts.entropies = {{{0, 0, 0, 0}, failed(unknown)}};
  EXPECT_THAT(explain(facts), IsEmpty());
}

TEST_F(FailedEntropiesTest, WrongLogProbabilitiesComeFirst) {
  FailureFacts facts;
  facts.entropies = {{{}, failed([](auto, const RowTruth&, std::size_t) { return 0.0; })}};
  facts.logprobs = {{{}, {}}};
  facts.logprobs[0].failed.count = 1;
  EXPECT_THAT(explain(facts), IsEmpty());
}

}  // namespace
}  // namespace lossgrid
