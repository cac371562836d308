// SPDX-License-Identifier: Apache-2.0
// Every row term of the list: kernels return its truth within its bound, from the statistics that
// it names, and the gradient by it within the bound of the gradient. That of a divergence, which
// has two distributions, is in divergence_rows_test.cpp.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/logit_gradient.h"
#include "impls/kernels/rows.h"
#include "impls/kernels/statistics_rows.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kTermRows = 12;
constexpr std::int64_t kTermVocab = 37;

/// Rows of one shard, every third with logits of -inf, and their truth.
struct RowsOfTerm {
  RowsOfTerm() {
    const RandomStream random(5, 7);
    for (std::int64_t r = 0; r < kTermRows; ++r) {
      targets.push_back(static_cast<std::int32_t>(5 * r % kTermVocab));
      std::vector<double> row;
      for (std::int64_t v = 0; v < kTermVocab; ++v) {
        const bool is_masked = r % 3 == 0 && v % 4 == 1 && v != targets.back();
        const float x =
            3 * random.normal(static_cast<std::uint64_t>(r), static_cast<std::uint32_t>(v));
        logits.push_back(is_masked ? -std::numeric_limits<float>::infinity() : x);
        row.push_back(logits.back());
      }
      truth.push_back(row_truth(row, targets.back()));
    }
  }

  LogitsRows rows() const {
    LogitsRows rows{DType::f32,     logits.data(), kTermRows, {0, kTermVocab, kTermVocab},
                    targets.data(), valid.data()};
    rows.vocab = kTermVocab;
    return rows;
  }
  double logit(std::int64_t r, std::int64_t v) const {
    return logits[static_cast<std::size_t>(r * kTermVocab + v)];
  }

  std::vector<float> logits;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> valid = std::vector<std::uint8_t>(kTermRows, 1);
  std::vector<RowTruth> truth;
};

/// The statistics that one term is made of.
struct StatisticsOfTerm {
  using Columns = StatisticsColumns;

  StatisticsOfTerm(const RowsOfTerm& rows, RowTerm term)
      : kinds(statistics_of(term)),
        data(static_cast<std::size_t>(kinds.width() * kTermRows)),
        columns{data.data(), kTermRows, kinds} {
    const auto at = [&](bool is_asked, Columns::Column which) {
      return is_asked ? columns.column(which) : nullptr;
    };
    rows_statistics(rows.rows(),
                    {columns.column(Columns::kShift), columns.column(Columns::kSum),
                     columns.column(Columns::kTarget), at(kinds.all, Columns::kWeighted),
                     at(kinds.all, Columns::kMin), at(kinds.mean, Columns::kTotal),
                     at(kinds.mean, Columns::kFinite), at(kinds.predictions, Columns::kSquares),
                     at(kinds.predictions, Columns::kBeaten)});
  }

  RowSoftmax softmax() const {
    RowSoftmax softmax{columns.column(Columns::kShift), columns.column(Columns::kSum)};
    if (kinds.all) softmax.weighted = columns.column(Columns::kWeighted);
    if (kinds.mean) softmax.finite = columns.column(Columns::kFinite);
    return softmax;
  }

  StatisticsKinds kinds;
  std::vector<float> data;
  Columns columns;
};

TEST(EveryRowTerm, IsItsTruthWithinItsBound) {
  const RowsOfTerm rows;
  for (const RowTerm term : kAllRowTerms) {
    if (term == RowTerm::divergence) continue;
    const StatisticsOfTerm statistics(rows, term);
    std::vector<float> logprobs(kTermRows);
    std::vector<float> numbers(kTermRows);
    WriteRow write{statistics.columns, rows.targets.data(), {logprobs.data()}, kTermVocab};
    write.out.terms[term] = numbers.data();
    for (std::int64_t r = 0; r < kTermRows; ++r) {
      write(r);
      const auto k = static_cast<std::size_t>(r);
      const RowTruth& truth = rows.truth[k];
      EXPECT_TRUE(std::isfinite(truth.term(term))) << name(term);
      EXPECT_NEAR(numbers[k], truth.term(term),
                  term_bound(truth, term, kStatisticsSerialAdds, DType::f32))
          << name(term) << ", row " << r;
    }
  }
}

TEST(EveryRowTerm, HasItsGradientWithinTheBound) {
  constexpr float kWeight = -1.5f;
  const RowsOfTerm rows;
  for (const RowTerm term : kAllGradientTerms) {
    if (term == RowTerm::divergence) continue;
    const StatisticsOfTerm statistics(rows, term);
    const std::vector<float> zeros(kTermRows, 0.0f);
    const std::vector<float> weights(kTermRows, kWeight);
    RowGradients gradients{zeros.data()};
    gradients.terms[term] = weights.data();
    std::vector<float> out(rows.logits.size());
    rows_gradient(rows.rows(), statistics.softmax(), gradients, out.data());
    RowGradientTruth by_term;
    by_term.terms[term] = kWeight;
    for (std::int64_t r = 0; r < kTermRows; ++r) {
      const RowTruth& truth = rows.truth[static_cast<std::size_t>(r)];
      const LogitGradient gradient(truth, by_term);
      const GradientBound bound(truth, by_term, DType::f32, kStatisticsSerialAdds);
      for (std::int64_t v = 0; v < kTermVocab; ++v) {
        const double z = rows.logit(r, v);
        const double p = std::exp(z - truth.max) / truth.sum;
        const bool is_target = v == truth.target;
        const double want = gradient.at(z, p, is_target);
        EXPECT_NEAR(out[static_cast<std::size_t>(r * kTermVocab + v)], want,
                    bound.computation(z, p, is_target) + bound.rounding(want, z, p, is_target))
            << name(term) << ", row " << r << ", id " << v;
      }
    }
  }
}

}  // namespace
}  // namespace lossgrid
