// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/objective_options.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../problem/expect_error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using Options = ObjectiveOptions;

enum class Letter { x, y };
const OptionNames kLetters{"x", {"y", "framework"}};

TEST(ObjectiveOptions, ValuesAreTyped) {
  const Options options{{"a", "true"}, {"b", "0.25"},  {"c", "null"},
                        {"d", "3"},    {"e", "\"y\""}, {"f", "null"}};
  const OptionReader reader(options, "kind");
  bool a = false;
  double b = 1;
  std::optional<double> c = 1;
  std::optional<double> d;
  Letter e = Letter::x;
  std::optional<Letter> f = Letter::x;
  reader.read("a", a, {});
  reader.read("b", b, {});
  reader.read("c", c, {});
  reader.read("d", d, {});
  reader.read("e", e, kLetters, {});
  reader.read("f", f, kLetters, {});
  reader.require_all_known();
  EXPECT_TRUE(a);
  EXPECT_EQ(b, 0.25);
  EXPECT_EQ(c, std::nullopt);
  EXPECT_EQ(d, 3);
  EXPECT_EQ(e, Letter::y);
  EXPECT_EQ(f, std::nullopt);
}

TEST(ObjectiveOptions, DefaultsAreThoseOfTheMembers) {
  const Options options;
  const OptionReader reader(options, "kind");
  bool a = true;
  std::optional<double> b = 7;
  Letter c = Letter::y;
  reader.read("a", a, {});
  reader.read("b", b, {});
  reader.read("c", c, kLetters, {});
  EXPECT_TRUE(a);
  EXPECT_EQ(b, 7);
  EXPECT_EQ(c, Letter::y);
  EXPECT_FALSE(reader.flag("d", {}));
  EXPECT_EQ(reader.number("e", 7, {}), 7);
  EXPECT_EQ(reader.optional_number("f", std::nullopt, {}), std::nullopt);
  EXPECT_EQ(reader.index("g", 1, kLetters, {}), 1u);
  EXPECT_EQ(reader.optional_index("h", kLetters, {}), std::nullopt);
}

TEST(ObjectiveOptions, OtherTypesAreRefused) {
  const auto read = [](const char* value, auto&& how) {
    const Options options{{"a", value}};
    const OptionReader reader(options, "kind");
    how(reader);
  };
  for (const char* value : {"1", "null", "\"true\"", "True", ""}) {
    expect_bad_input([&] { read(value, [](auto& r) { r.flag("a", {}); }); },
                     {"kind: a = ", "is not true or false"});
  }
  for (const char* value : {"true", "null", "\"1\"", "1e999", "[1]", "nan"}) {
    expect_bad_input([&] { read(value, [](auto& r) { r.number("a", 1, {}); }); },
                     {"kind: a = ", "is not a number"});
  }
  expect_bad_input([&] { read("\"1\"", [](auto& r) { r.optional_number("a", 1, {}); }); },
                   {"kind: a = \"1\" is not a number or null"});
  for (const char* value : {"\"z\"", "null", "1"}) {
    expect_bad_input([&] { read(value, [](auto& r) { r.index("a", 0, kLetters, {}); }); },
                     {"kind: a = ", "is not one of x, y"});
  }
  expect_bad_input([&] { read("\"z\"", [](auto& r) { r.optional_index("a", kLetters, {}); }); },
                   {"kind: a = \"z\" is not one of x, y or null"});
}

TEST(ObjectiveOptions, MessagesStayOneLineWhateverTheValueHolds) {
  const Options options{{"a", "x\ny"}, {"b", '"' + std::string(1000, 'x') + '"'}};
  const OptionReader reader(options, "kind");
  expect_bad_input([&] { reader.flag("a", {}); }, {"a = \"x\\ny\" is not"});
  try {
    reader.flag("b", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 120u);
  }
}

TEST(ObjectiveOptions, OptionsThatNoReadNamesAreUnknown) {
  const Options options{{"first", "1"}, {"secnd", "2"}};
  const OptionReader reader(options, "kind");
  reader.number("first", 0, {});
  reader.number("second", 0, {});
  expect_bad_input([&] { reader.require_all_known(); }, {"'kind'", "'secnd'", "'second'"});
}

TEST(ObjectiveOptions, NumbersKeepTheirRule) {
  const Options options{{"a", "0"}, {"b", "-1"}};
  const OptionReader reader(options, "kind");
  EXPECT_EQ(reader.number("a", 1, {"", "", kNotNegative}), 0);
  reader.optional_number("b", std::nullopt, {"", "", kAbove0});
  expect_bad_input([&] { reader.require_all_known(); }, {"kind: b must be above 0, or null"});
}

TEST(ObjectiveOptions, DescriptionsHaveAllThatIsStated) {
  const Options options{{"a", "0.5"}, {"b", "\"y\""}};
  const OptionReader reader(options, "kind", OptionReader::Purpose::description);
  reader.number("a", 1, {"effect", "upstream", kShare});
  reader.optional_index("b", kLetters, {});
  const OptionDescription& a = reader.described().front();
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.effect, "effect");
  EXPECT_EQ(a.upstream, "upstream");
  EXPECT_EQ(a.rule, "must be in [0, 1]");
  EXPECT_EQ(a.fallback, "1.0");
  EXPECT_EQ(a.value, "0.5");
  EXPECT_THAT(a.choices, ElementsAre("0.0", "1.0"));
  const OptionDescription& b = reader.described().back();
  EXPECT_EQ(b.fallback, "null");
  EXPECT_EQ(b.value, "\"y\"");
  EXPECT_THAT(b.choices, ElementsAre("\"x\"", "\"y\"", "null"));
  EXPECT_THAT(b.frameworks,
              ElementsAre(std::pair<const std::string, std::string>("\"y\"", "framework")));
}

TEST(ObjectiveOptions, AllAreDocumentedWithAnEffect) {
  for (const ObjectiveEntry* entry : objectives()) {
    std::vector<std::string> names;
    for (const OptionDescription& option : entry->document()) {
      EXPECT_NE(option.effect, "") << entry->kind << " " << option.name;
      EXPECT_NE(option.fallback, "") << entry->kind << " " << option.name;
      EXPECT_EQ(option.value, option.fallback) << entry->kind << " " << option.name;
      names.push_back(option.name);
    }
    for (const OptionDescription& option : entry->describe({})) {
      EXPECT_THAT(names, ::testing::Contains(option.name)) << entry->kind;
    }
  }
}

}  // namespace
}  // namespace lossgrid
