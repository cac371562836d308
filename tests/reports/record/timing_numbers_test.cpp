// SPDX-License-Identifier: Apache-2.0
// Numbers of timing rows with a column in the list of fields: every table has all of them, whatever
// they are. (page_check.py looks for them in the page.)
#include "reports/record/timing_numbers.h"

#include <array>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/change/metric.h"
#include "reports/exports/exporter.h"
#include "reports/file/schema.h"
#include "reports/text/number_text.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;

/// Visitor of the fields of a row that sets one number.
struct NumberSetter {
  std::string wanted;
  double number = 0;

  void record(const char*, const char*) {}
  template <typename T>
  void operator()(const char* key, T& value, const char*, const Rule& = {}) const {
    if constexpr (std::is_arithmetic_v<T>) {
      if (key == wanted) value = static_cast<T>(number);
    } else if constexpr (std::is_convertible_v<T, std::optional<double>>) {
      if (key == wanted) value = static_cast<typename T::value_type>(number);
    }
  }
};

/// Returns two values of the unit that tables show.
std::array<double, 2> values_of(Unit unit) {
  if (unit == Unit::percent) return {0.31, 0.64};
  if (unit == Unit::count || unit == Unit::factor) return {31, 64};
  return {3.1e9, 6.4e9};
}

/// Returns a run whose timed rows all have `number` at this value.
RunRecord run_with(const TimingNumber& number, double value) {
  RunRecord run = sample_bench_run();
  TimingRecord& timing = run.timings[0];
  timing.useful_flops = number.column.unit == Unit::flops_per_second ? 1e9 : 0;
  NumberSetter setter{number.key, value};
  for (TimingRow& row : timing.rows) fields(setter, row);
  return run;
}

TEST(TimingNumbers, AreTheSameColumnsForEveryRowWithTheMostImportantFirst) {
  const std::vector<TimingNumber> numbers = timing_numbers(sample_timing().rows[0]);
  const std::vector<TimingNumber> of_an_empty_row = timing_numbers({});
  ASSERT_EQ(of_an_empty_row.size(), numbers.size());
  std::set<std::string> titles;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    EXPECT_EQ(of_an_empty_row[k].key, numbers[k].key);
    EXPECT_TRUE(titles.insert(numbers[k].column.title).second) << numbers[k].key;
    EXPECT_TRUE(numbers[k].about.ends_with('.')) << numbers[k].key;
    if (k == 0) continue;
    EXPECT_LE(numbers[k].column.importance, numbers[k - 1].column.importance);
  }
}

TEST(TimingNumbers, HoldTheValuesOfTheRow) {
  for (const TimingNumber& number : timing_numbers({})) {
    const double value = values_of(number.column.unit)[0];
    for (const TimingNumber& found : timing_numbers(run_with(number, value).timings[0].rows[0])) {
      if (found.key == number.key) {
        EXPECT_EQ(found.value, value) << number.key;
      }
      if (found.key == "ceiling_ratio") {
        EXPECT_EQ(found.note, "read");
      }
    }
  }
}

TEST(TimingNumbers, StandInTheTextTable) {
  for (const TimingNumber& number : timing_numbers({})) {
    for (const double value : values_of(number.column.unit)) {
      const std::string text = format_timing_table(run_with(number, value).timings);
      EXPECT_THAT(text, HasSubstr("  " + column_head(number.column)));
      EXPECT_THAT(text, HasSubstr("  " + number_text(value, number.column.unit)));
    }
  }
}

/// Markdown and OpenMetrics change with the numbers that they have, and with these only.
TEST(TimingNumbers, StandInShortTablesAsTheirColumnsAllow) {
  const std::vector<TimingNumber> numbers = timing_numbers({});
  for (const TimingNumber& number : numbers) {
    const auto [low, high] = values_of(number.column.unit);
    for (const char* format : {"markdown", "openmetrics"}) {
      const Exporter& exporter = find_exporter(format);
      const std::string text = exporter.text(run_with(number, low));
      EXPECT_EQ(text != exporter.text(run_with(number, high)), number.column.in_summaries)
          << number.key << " in " << format;
      if (!number.column.in_summaries) continue;
      const bool is_markdown = exporter.name == "markdown";
      EXPECT_THAT(text,
                  HasSubstr(is_markdown ? "| " + column_head(number.column) + " |" : number.about));
    }
  }
}

TEST(TimingNumbers, WithABetterValueAreMetricsThatPoliciesMayName) {
  for (const TimingNumber& number : timing_numbers({})) {
    if (!number.column.better) continue;
    const ReportMetric& metric = find_metric(number.key);
    EXPECT_EQ(metric.better, *number.column.better);
    const RunRecord run = run_with(number, 0.31);
    const std::vector<Measurement> measured = metric.measurements(everything_measured(run));
    ASSERT_EQ(measured.size(), run.timings[0].rows.size());
    EXPECT_EQ(measured[0].value, 0.31);
  }
  for (const ReportMetric& metric : metrics()) {
    const nlohmann::ordered_json policy{{"schema", "lossgrid.policy/1"},
                                        {"rules", {{{"metric", metric.name}, {"limit", 1}}}}};
    EXPECT_THAT(schema_problems("policy", policy), testing::IsEmpty()) << metric.name;
  }
}

}  // namespace
}  // namespace lossgrid
