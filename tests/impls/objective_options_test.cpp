// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/objective_options.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../problem/expect_error.h"

namespace lossgrid {
namespace {

using Options = ObjectiveOptions;

TEST(ObjectiveOptions, ValuesAreTyped) {
  const Options options{{"a", "true"}, {"b", "0.25"},  {"c", "null"},
                        {"d", "3"},    {"e", "\"y\""}, {"f", "null"}};
  const OptionReader reader(options, "kind");
  EXPECT_TRUE(reader.flag("a", false));
  EXPECT_EQ(reader.number("b", 1), 0.25);
  EXPECT_EQ(reader.optional_number("c", 1), std::nullopt);
  EXPECT_EQ(reader.optional_number("d", std::nullopt), 3);
  EXPECT_EQ(reader.one_of("e", {"x", "y"}, "x"), "y");
  EXPECT_EQ(reader.optional_one_of("f", {"x", "y"}), std::nullopt);
  reader.require_all_known();
}

TEST(ObjectiveOptions, WhatIsNotGivenHasItsDefault) {
  const Options options;
  const OptionReader reader(options, "kind");
  EXPECT_TRUE(reader.flag("a", true));
  EXPECT_FALSE(reader.flag("a", false));
  EXPECT_EQ(reader.number("b", 7), 7);
  EXPECT_EQ(reader.optional_number("c", 7), 7);
  EXPECT_EQ(reader.optional_number("c", std::nullopt), std::nullopt);
  EXPECT_EQ(reader.one_of("d", {"x", "y"}, "x"), "x");
  EXPECT_EQ(reader.optional_one_of("d", {"x", "y"}), std::nullopt);
}

TEST(ObjectiveOptions, OtherTypesAreRefused) {
  const auto read = [](const char* value, auto&& how) {
    const Options options{{"a", value}};
    const OptionReader reader(options, "kind");
    how(reader);
  };
  for (const char* value : {"1", "null", "\"true\"", "True", ""}) {
    expect_bad_input([&] { read(value, [](auto& r) { r.flag("a", true); }); },
                     {"kind: a = ", "is not true or false"});
  }
  for (const char* value : {"true", "null", "\"1\"", "1e999", "[1]", "nan"}) {
    expect_bad_input([&] { read(value, [](auto& r) { r.number("a", 1); }); },
                     {"kind: a = ", "is not a number"});
  }
  expect_bad_input([&] { read("\"1\"", [](auto& r) { r.optional_number("a", 1); }); },
                   {"kind: a = \"1\" is not a number or null"});
  for (const char* value : {"\"z\"", "null", "1"}) {
    expect_bad_input([&] { read(value, [](auto& r) {
                             r.one_of("a", {"x", "y"}, "x");
                           }); },
                     {"kind: a = ", "is not one of x, y"});
  }
  expect_bad_input([&] { read("\"z\"", [](auto& r) {
                           r.optional_one_of("a", {"x", "y"});
                         }); },
                   {"kind: a = \"z\" is not one of x, y or null"});
}

TEST(ObjectiveOptions, MessagesStayOneLineWhateverTheValueHolds) {
  const Options options{{"a", "x\ny"}, {"b", '"' + std::string(1000, 'x') + '"'}};
  const OptionReader reader(options, "kind");
  expect_bad_input([&] { reader.flag("a", true); }, {"a = \"x\\ny\" is not"});
  try {
    reader.flag("b", true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 120u);
  }
}

TEST(ObjectiveOptions, WhatNothingReadIsUnknown) {
  const Options options{{"first", "1"}, {"secnd", "2"}};
  const OptionReader reader(options, "kind");
  reader.number("first", 0);
  reader.number("second", 0);
  expect_bad_input([&] { reader.require_all_known(); }, {"'kind'", "'secnd'", "'second'"});
}

}  // namespace
}  // namespace lossgrid
