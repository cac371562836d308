// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/part_places.h"

#include <set>

#include <fmt/format.h>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

std::string plural(std::string_view one) {
  if (one.ends_with('y')) return fmt::format("{}ies", one.substr(0, one.size() - 1));
  return fmt::format("{}{}", one, one.ends_with("ch") ? "es" : "s");
}

std::vector<int> numbers_on(const PartAxis& axis, const std::vector<PartPlace>& places) {
  std::set<int> numbers;
  for (const PartPlace& place : places) numbers.insert(place.*axis.at);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

std::string counted(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}", count, count == 1 ? std::string(one) : plural(one));
}

std::string numbered(std::string_view one, const std::vector<int>& numbers) {
  if (numbers.size() == 1) return fmt::format("{} {}", one, numbers[0]);
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  const std::string last = texts.back();
  texts.pop_back();
  return fmt::format("{} {} and {}", plural(one), join(texts, ", "), last);
}

std::string on_some_only(const std::vector<PartPlace>& some, const std::vector<PartPlace>& all) {
  std::vector<std::string> where;
  for (const PartAxis& axis : kPartAxes) {
    const std::vector<int> numbers = numbers_on(axis, some);
    if (!numbers.empty() && numbers.size() < numbers_on(axis, all).size()) {
      where.push_back(numbered(axis.name, numbers));
    }
  }
  return where.empty() ? "" : fmt::format(" on {} only", join(where, ", "));
}

}  // namespace lossgrid
