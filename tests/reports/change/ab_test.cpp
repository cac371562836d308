// SPDX-License-Identifier: Apache-2.0
// Tests of A/B statistics: the interval as published, the verdicts, and by simulation the rates of
// wrong verdicts and of differences found. Then record and table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "reports/record/ab_record.h"
#include "reports/record/ab_statistics.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MedianRatio, HasTheExactIntervalOfOrderStatistics) {
  struct Published {
    std::size_t n;
    double alpha;
    double low;  // k, of ratios 1 .. n
    double high;
    double confidence;
  };
  for (const Published& row :
       {Published{6, 0.05, 1, 6, 0.969}, Published{9, 0.05, 2, 8, 0.961},
        Published{12, 0.05, 3, 10, 0.961}, Published{15, 0.05, 4, 12, 0.965},
        Published{17, 0.05, 5, 13, 0.951}, Published{20, 0.05, 6, 15, 0.959},
        Published{25, 0.05, 8, 18, 0.957}, Published{30, 0.05, 10, 21, 0.957},
        Published{12, kLookAlpha, 2, 11, 0.994}, Published{20, kLookAlpha, 5, 16, 0.988},
        Published{30, kLookAlpha, 9, 22, 0.984}}) {
    std::vector<double> ratios(row.n);
    std::iota(ratios.rbegin(), ratios.rend(), 1.0);
    const MedianRatio found = median_ratio(ratios, row.alpha);
    EXPECT_EQ(found.low, row.low) << row.n;
    EXPECT_EQ(found.high, row.high) << row.n;
    EXPECT_NEAR(found.confidence, row.confidence, 5e-4) << row.n;
  }
  const MedianRatio none = median_ratio(std::vector<double>{1, 2, 3, 4, 5}, 0.05);
  EXPECT_EQ(none.median, 3);
  EXPECT_EQ(none.low, 0);
  EXPECT_EQ(none.high, std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(median_ratio(std::vector<double>{8, 0.5, 2, 0.1}, 1).median, 1);
  EXPECT_THROW(median_ratio({}, 0.05), Error);
}

TEST(AbVerdict, IsTheSideOfTheMargin) {
  const auto verdict = [](double low, double high) { return judge({1, low, high, 1}, 0.25); };
  EXPECT_EQ(verdict(1.26, 1.5), AbVerdict::regressed);
  EXPECT_EQ(verdict(1.25, 1.5), AbVerdict::inconclusive);
  EXPECT_EQ(verdict(0.7, 1.25), AbVerdict::inconclusive);
  EXPECT_EQ(verdict(0.7, 1.24), AbVerdict::ok);
  EXPECT_EQ(verdict(1.1, 1.2), AbVerdict::ok);
  EXPECT_EQ(verdict(0.7, 0.8), AbVerdict::ok);
  EXPECT_EQ(verdict(0.7, 0.79), AbVerdict::improved);
  for (const AbVerdict each :
       {AbVerdict::ok, AbVerdict::improved, AbVerdict::inconclusive, AbVerdict::regressed}) {
    EXPECT_EQ(ab_verdict(name(each)), each);
  }
  EXPECT_THROW(ab_verdict("ok"), Error);
}

TEST(LookAlpha, IsDividedAmongManyComparisons) {
  EXPECT_EQ(look_alpha(1), 0.022);
  EXPECT_EQ(look_alpha(20), 0.022);
  EXPECT_DOUBLE_EQ(look_alpha(22), 0.001);
}

TEST(SequentialComparison, LooksAt12And20And30) {
  const auto launches = [](const std::vector<double>& cycle) {
    SequentialComparison comparison(0.1, kLookAlpha);
    while (!comparison.is_decided()) {
      EXPECT_EQ(comparison.verdict(), AbVerdict::inconclusive);
      comparison.add(cycle[comparison.launch_ratios().size() % cycle.size()]);
    }
    return std::pair(comparison.launch_ratios().size(), comparison.verdict());
  };
  EXPECT_EQ(launches({1.05}), std::pair(std::size_t{12}, AbVerdict::ok));
  EXPECT_EQ(launches({1.2, 1.3}), std::pair(std::size_t{12}, AbVerdict::regressed));
  // One of six launches within the margin: the second lowest of 12, the fourth of 20.
  EXPECT_EQ(launches({1.2, 1.2, 1.2, 1.05, 1.2, 1.2}),
            std::pair(std::size_t{20}, AbVerdict::regressed));
  EXPECT_EQ(launches({1.05, 1.2}), std::pair(std::size_t{30}, AbVerdict::inconclusive));
}

/// Shares of verdicts of many comparisons whose launches scatter around the true ratio: normally in
/// log-ratio, and a tenth of them, as on shared machines, five times as far.
struct Rates {
  double regressed = 0;
  double ok = 0;        // or improved
  double launches = 0;  // mean of a comparison
  double missed = 0;    // share of intervals that do not hold the true ratio
};

Rates simulate(double true_ratio, double launch_sd, double margin, std::uint32_t stream) {
  constexpr std::uint32_t kPlace = 1000;  // of the random numbers that choose the wide launches
  constexpr int kComparisons = 4000;
  const RandomStream random(1, stream);
  Rates rates;
  for (std::uint64_t k = 0; k < kComparisons; ++k) {
    SequentialComparison comparison(margin, kLookAlpha);
    while (!comparison.is_decided()) {
      const auto launch = static_cast<std::uint32_t>(comparison.launch_ratios().size());
      const double sd = random.uniform(k, kPlace + launch) < 0.1 ? 5 * launch_sd : launch_sd;
      comparison.add(true_ratio * std::exp(sd * random.normal(k, launch)));
    }
    rates.regressed += comparison.verdict() == AbVerdict::regressed;
    rates.ok +=
        comparison.verdict() == AbVerdict::ok || comparison.verdict() == AbVerdict::improved;
    rates.launches += static_cast<double>(comparison.launch_ratios().size());
    rates.missed +=
        true_ratio < comparison.ratio().low || true_ratio > comparison.ratio().high ? 1 : 0;
  }
  for (double* rate : {&rates.regressed, &rates.ok, &rates.launches, &rates.missed}) {
    *rate /= kComparisons;
  }
  return rates;
}

TEST(SequentialComparison, SeldomErrsAndFindsWhatIsThere) {
  struct Expected {
    double true_ratio;
    double launch_sd;
    double regressed_least, regressed_most;
    double ok_least, ok_most;
    double launches_most;
  };
  std::uint32_t stream = 0;
  for (const Expected& row :
       {Expected{1.00, 0.02, 0, 0, 0.976, 1, 18},
        Expected{1.03, 0.02, 0.005, 0.015, 0.005, 0.015, 30},
        Expected{1.06, 0.02, 0.97, 1, 0, 0, 18}, Expected{1.10, 0.02, 0.999, 1, 0, 0, 12.5},
        Expected{1.00, 0.05, 0, 0, 0.45, 0.55, 30}, Expected{1.10, 0.05, 0.94, 1, 0, 0, 18}}) {
    const Rates found = simulate(row.true_ratio, row.launch_sd, 0.03, stream++);
    const auto what = ::testing::Message() << row.true_ratio << " sd " << row.launch_sd;
    EXPECT_GE(found.regressed, row.regressed_least) << what;
    EXPECT_LE(found.regressed, row.regressed_most) << what;
    EXPECT_GE(found.ok, row.ok_least) << what;
    EXPECT_LE(found.ok, row.ok_most) << what;
    EXPECT_LE(found.launches, row.launches_most) << what;
    EXPECT_LE(found.missed, 0.05) << what;
  }
}

AbRecord record_of(const std::string& a, const std::string& b, AbVerdict verdict) {
  AbRecord record = sample_ab_run().ab.front();
  record.a = a;
  record.b = b;
  record.verdict = verdict;
  return record;
}

TEST(AbRecord, ExitCodes) {
  const auto code = [](AbVerdict verdict, bool strict, const std::string& b = "b") {
    return exit_code_of({record_of("a", b, verdict), record_of("a", "b", AbVerdict::ok)}, strict);
  };
  EXPECT_EQ(exit_code_of(std::vector<AbRecord>{}, true), ExitCode::ok);
  EXPECT_EQ(code(AbVerdict::ok, true), ExitCode::ok);
  EXPECT_EQ(code(AbVerdict::improved, true), ExitCode::ok);
  EXPECT_EQ(code(AbVerdict::inconclusive, false), ExitCode::ok);
  EXPECT_EQ(code(AbVerdict::inconclusive, true), ExitCode::inconclusive);
  EXPECT_EQ(code(AbVerdict::regressed, false), ExitCode::time_regression);
  EXPECT_EQ(code(AbVerdict::ok, true, "a"), ExitCode::ok);
  EXPECT_EQ(code(AbVerdict::inconclusive, false, "a"), ExitCode::inconclusive);
  EXPECT_EQ(code(AbVerdict::improved, false, "a"), ExitCode::rank_crashed);
  EXPECT_EQ(code(AbVerdict::regressed, false, "a"), ExitCode::rank_crashed);
}

TEST(AbTable, NeverShowsAVerdictAlone) {
  EXPECT_EQ(format_ab_table({}), "");
  EXPECT_EQ(format_ab_table(sample_ab_run().ab),
            "  phase    A      B                        B / A      interval  confidence   n      "
            "launches  pairs  verdict\n"
            "pack: lens=64 vocab=512 on tp2cp1, cache hot\n"
            "  forward  fused  probe/slowed:percent=10  1.100  1.090..1.110       99.4%  12  "
            "1.080..1.120     30  REGRESSED\n"
            "B / A: time of B over time of A, the median of n launches with its exact interval by "
            "order statistics.\n"
            "REGRESSED is above 1.030 for certain, OK below it; margin 3 %, seed 1.\n");
}

TEST(AbTable, ShowsTheResultOfASelfCheck) {
  EXPECT_THAT(format_ab_table({record_of("a", "a", AbVerdict::regressed)}),
              HasSubstr("false alarm: a against itself is REGRESSED (pack: "));
  EXPECT_THAT(format_ab_table({record_of("a", "a", AbVerdict::inconclusive)}),
              HasSubstr("too noisy for a margin of 3 %: a against itself ("));
  EXPECT_THAT(format_ab_table({record_of("a", "a", AbVerdict::ok)}), Not(HasSubstr("itself")));
  EXPECT_THAT(format_ab_table({record_of("a", "b", AbVerdict::regressed)}),
              Not(HasSubstr("itself")));
}

}  // namespace
}  // namespace lossgrid
