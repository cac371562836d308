// SPDX-License-Identifier: Apache-2.0
#include "reports/record/timing_numbers.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

namespace lossgrid {
namespace {

/// Visitor of the fields of a row (field.h) that collects those with a column.
class NumberCollector {
 public:
  void record(const char*, const char*) {}

  template <typename T>
  void operator()(const char* key, const T& value, const char* description, const Rule& rule = {}) {
    if constexpr (std::is_same_v<T, std::string>) texts_[key] = value;
    if (rule.column.title == nullptr) return;
    const Column& column = rule.column;
    numbers_.push_back({.key = key,
                        .about = column.about == nullptr ? description : column.about,
                        .column = column,
                        .value = number(value, rule)});
  }

  std::vector<TimingNumber> take() {
    for (TimingNumber& number : numbers_) {
      if (number.column.note != nullptr) number.note = texts_[number.column.note];
    }
    std::stable_sort(numbers_.begin(), numbers_.end(),
                     [](const TimingNumber& a, const TimingNumber& b) {
                       return a.column.importance > b.column.importance;
                     });
    return std::move(numbers_);
  }

 private:
  template <typename T>
  static std::optional<double> number(const T& value, const Rule& rule) {
    if constexpr (std::is_arithmetic_v<T>) {
      const auto found = static_cast<double>(value);
      if (rule.null && found < rule.minimum.value_or(0)) return std::nullopt;
      return found;
    } else if constexpr (std::is_convertible_v<T, std::optional<double>>) {
      return value;
    } else {
      return std::nullopt;
    }
  }

  std::vector<TimingNumber> numbers_;
  std::map<std::string, std::string> texts_;  // by key
};

}  // namespace

std::vector<TimingNumber> timing_numbers(const TimingRow& row) {
  NumberCollector collector;
  fields(collector, const_cast<TimingRow&>(row));  // visitors share one list; this one only reads
  return collector.take();
}

std::vector<TimingNumber> summary_numbers(const TimingRow& row) {
  std::vector<TimingNumber> numbers = timing_numbers(row);
  std::erase_if(numbers, [](const TimingNumber& number) { return !number.column.in_summaries; });
  return numbers;
}

}  // namespace lossgrid
