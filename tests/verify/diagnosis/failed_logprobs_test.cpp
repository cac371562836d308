// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/failed_logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>

#include "harness/device/memory/buffer.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/checks/row_places.h"
#include "one_row.h"

namespace lossgrid {
namespace {

constexpr int kAdds = 12;

struct Batch {
  Problem problem;
  Truth truth;
  std::vector<RowPlace> places;
  std::vector<std::vector<std::int64_t>> order;  // one rank holds all rows
};

Batch make_batch(const std::string& text) {
  Batch b{make_problem(parse_case(text)), {}, {}, {{}}};
  b.truth.rows = compute_rows(b.problem, 1);
  b.order[0].resize(static_cast<std::size_t>(b.problem.tokens()));
  std::iota(b.order[0].begin(), b.order[0].end(), 0);
  b.places = place_rows(b.problem, b.problem.cu_seqlens, b.order[0]);
  return b;
}

using Change = std::function<double(const RowTruth&, std::span<const double>, std::int64_t)>;

/// Returns the index of the mistake that fits all rows where it would show, of a rank that returns
/// `change` of each row; -1 for none.
int mistake_of(const Batch& b, const Change& change, int tp = 1, int tp_rank = 0) {
  std::vector<float> got(b.places.size(), 0.0f);
  std::vector<double> logits(static_cast<std::size_t>(b.problem.spec.vocab));
  for (std::size_t k = 0; k < got.size(); ++k) {
    b.problem.logits->read(b.places[k].row, 0, std::span<double>(logits));
    got[k] = static_cast<float>(
        change(b.truth.rows[b.places[k].row], logits, static_cast<std::int64_t>(k)));
  }
  const FailedLogprobs failed =
      look_at_logprobs(b.problem, b.truth, {b.places, b.order, tp, tp_rank}, got, kAdds);
  int found = -1;
  for (std::size_t m = 0; m < failed.mistakes.size(); ++m) {
    const MistakeTally& tally = failed.mistakes[m];
    if (tally.fits == 0) continue;
    EXPECT_EQ(found, -1) << "two mistakes fit";
    EXPECT_EQ(tally.fits, tally.tried) << m;
    EXPECT_GT(tally.fits, 5) << m;
    found = static_cast<int>(m);
  }
  return found;
}

double lse_of(std::span<const double> logits) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  return std::log(sum);
}

TEST(FailedLogprobs, AShardWithoutProbabilityAddsNothing) {
  Batch b = make_batch("lens=9+12+9+12 vocab=51 mask=all");
  std::vector<double> logits(17, -std::numeric_limits<double>::infinity());
  for (int k = 17; k < 51; ++k) logits.push_back(0.1 * (k % 13) + (k < 34 ? 0 : 4));
  b.problem.logits = std::make_shared<const SameLogits>(logits);
  b.truth.rows = compute_rows(b.problem, 1);
  const auto max_not_reduced = [](const RowTruth& row, std::span<const double> x, std::int64_t) {
    double sum = 0;
    double max_of_owner = 0;
    for (const std::size_t begin : {17, 34}) {
      const auto shard = x.subspan(begin, 17);
      const double max = *std::max_element(shard.begin(), shard.end());
      for (const double logit : shard) sum += std::exp(logit - max);
      if (row.target >= 17 && (row.target < 34) == (begin == 17)) max_of_owner = max;
    }
    return row.target < 17 ? row.logprob : row.target_logit - max_of_owner - std::log(sum);
  };
  EXPECT_EQ(mistake_of(b, max_not_reduced, 3, 1), 0);
}

TEST(FailedLogprobs, TheTruthHasNone) {
  const Batch b = make_batch("lens=9+12 vocab=50 mask=all");
  std::vector<float> got;
  for (const RowTruth& row : b.truth.rows) got.push_back(static_cast<float>(row.logprob));
  const FailedLogprobs failed =
      look_at_logprobs(b.problem, b.truth, {b.places, b.order, 2, 0}, got, kAdds);
  EXPECT_EQ(failed.count, 0);
  for (const auto& tally : failed.mistakes) EXPECT_EQ(tally.tried, 0);
}

TEST(FailedLogprobs, EachMistakeIsRecognisedAndNoOther) {
  const Batch b = make_batch("lens=9+12 vocab=50 mask=all");
  const auto shards = [](std::span<const double> x, int r) {
    return x.subspan(r == 0 ? 0 : 25, 25);
  };
  const auto max = [](std::span<const double> x) { return *std::max_element(x.begin(), x.end()); };
  EXPECT_EQ(mistake_of(
                b,
                [&](const RowTruth& row, std::span<const double> x, std::int64_t) {
                  double sum = 0;
                  for (int r = 0; r < 2; ++r) {
                    const auto part = shards(x, r);
                    sum += std::exp(lse_of(part) - max(part));
                  }
                  return row.target_logit - max(shards(x, row.target < 25 ? 0 : 1)) - std::log(sum);
                },
                2),
            0);
  EXPECT_EQ(mistake_of(
                b,
                [&](const RowTruth& row, std::span<const double> x, std::int64_t) {
                  return row.target_logit - lse_of(shards(x, 1));
                },
                2, 1),
            1);
  EXPECT_EQ(mistake_of(
                b,
                [&](const RowTruth& row, std::span<const double> x, std::int64_t) {
                  return row.target < 25 ? -lse_of(x) : row.logprob;
                },
                2, 1),
            2);
  const std::vector<std::int32_t> targets = b.problem.row_targets();
  const auto of_label = [&](std::span<const double> x, std::int32_t label, const RowTruth& row) {
    return label < 0 ? row.logprob : x[static_cast<std::size_t>(label)] - lse_of(x);
  };
  const auto rows = static_cast<std::int64_t>(targets.size());
  EXPECT_EQ(
      mistake_of(b, [&](const RowTruth& row, std::span<const double> x,
                        std::int64_t k) { return of_label(x, targets[(k + 1) % rows], row); }),
      5);
  EXPECT_EQ(mistake_of(b, [](const RowTruth&, std::span<const double>, std::int64_t) { return 0; }),
            8);
  EXPECT_EQ(mistake_of(b, [](const RowTruth& row, std::span<const double>,
                             std::int64_t) { return -row.logprob; }),
            9);
  EXPECT_EQ(mistake_of(b, [&](const RowTruth&, std::span<const double>,
                              std::int64_t k) { return b.truth.rows[k < 8 ? 7 - k : k].logprob; }),
            7);
  EXPECT_EQ(mistake_of(b, [](const RowTruth& row, std::span<const double>,
                             std::int64_t) { return row.logprob + 0.3; }),
            -1);
}

TEST(FailedLogprobs, RecogniseLabelsThatWereNotShifted) {
  const Batch b = make_batch("lens=9+12 vocab=50 mask=all");
  std::vector<float> got;
  std::vector<double> logits(50);
  for (std::size_t k = 0; k < b.places.size(); ++k) {
    b.problem.logits->read(b.places[k].row, 0, std::span<double>(logits));
    got.push_back(static_cast<float>(logits[b.problem.input_ids[k]] - lse_of(logits)));
  }
  const FailedLogprobs failed =
      look_at_logprobs(b.problem, b.truth, {b.places, b.order, 1, 0}, got, kAdds);
  EXPECT_EQ(failed.mistakes[3].fits, failed.mistakes[3].tried);
  EXPECT_GE(failed.mistakes[3].fits, 15);
  // The same but for first tokens of sequences: a label of the row before.
  EXPECT_LT(failed.mistakes[6].fits, failed.mistakes[3].fits);
}

TEST(FailedLogprobs, RecogniseATemperatureThatWasLeftOut) {
  const Batch b = make_batch("lens=9+12 vocab=50 mask=all hidden=8 temperature=2");
  EXPECT_EQ(mistake_of(b,
                       [](const RowTruth& row, std::span<const double> x, std::int64_t) {
                         std::vector<double> raw(x.begin(), x.end());
                         for (double& logit : raw) logit *= 2;
                         return 2 * row.target_logit - lse_of(raw);
                       }),
            10);
}

TEST(FailedLogprobs, KeepsNanUnwrittenAndPositiveApart) {
  const Batch b = make_batch("lens=9 vocab=50 mask=all");
  std::vector<float> got;
  for (const RowTruth& row : b.truth.rows) got.push_back(static_cast<float>(row.logprob));
  got[2] = std::nanf("");
  got[3] = 0.5f;
  const std::uint32_t poison = std::uint32_t{kPoisonPattern} << 16 | kPoisonPattern;
  std::memcpy(&got[5], &poison, sizeof(poison));
  const FailedLogprobs failed =
      look_at_logprobs(b.problem, b.truth, {b.places, b.order, 1, 0}, got, kAdds);
  EXPECT_EQ(failed.count, 3);
  EXPECT_EQ(failed.nan_rows, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(failed.positive, 1);
  EXPECT_EQ(failed.not_written, 1);
  EXPECT_EQ(failed.differences, 1);
}

}  // namespace
}  // namespace lossgrid
