// SPDX-License-Identifier: Apache-2.0
#include "harness/core/text.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;

/// Returns the message of the bad_input that `call` throws, "" without one.
template <typename F>
std::string message_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split(",a,,", ','), ElementsAre("", "a", "", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, JoinUndoesSplit) {
  const std::vector<std::string> parts{"x", "", "yz"};
  EXPECT_EQ(join(parts, ", "), "x, , yz");
  EXPECT_EQ(split(join(parts, ","), ','), parts);
  EXPECT_EQ(join(std::vector<std::string>{}, ","), "");
}

TEST(Text, ParseIntegerTakesWholeNumbersInRange) {
  EXPECT_EQ(parse_integer("42", "n", 0, 42), 42);
  EXPECT_EQ(parse_integer("-7", "n", -7, 0), -7);
  EXPECT_EQ(parse_integer("9223372036854775807", "n", 0, std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
}

TEST(Text, ParseIntegerRefusesOtherTexts) {
  const auto message = [](const char* text) {
    return message_of([&] { parse_integer(text, "vocab", 1, 100); });
  };
  for (const char* text : {"", " 1", "1 ", "1.0", "1e2", "0x10", "+1", "one", "-"}) {
    EXPECT_EQ(message(text), "vocab = '" + std::string(text) + "' is not a whole number");
  }
  EXPECT_EQ(message("0"), "vocab = 0 is outside [1, 100]");
  EXPECT_EQ(message("101"), "vocab = 101 is outside [1, 100]");
  EXPECT_EQ(message("9223372036854775808"), "vocab = 9223372036854775808 does not fit 64 bits");
}

TEST(Text, ParseNumberTakesFiniteNumbers) {
  EXPECT_EQ(parse_number("0.25", "x"), 0.25);
  EXPECT_EQ(parse_number("-1e-3", "x"), -1e-3);
  EXPECT_EQ(parse_number("3", "x"), 3.0);
  for (const char* text : {"", "nan", "inf", "-inf", "1e999", "1,5", "0.1x", " 1"}) {
    EXPECT_EQ(message_of([&] { parse_number(text, "eps"); }),
              "eps = '" + std::string(text) + "' is not a finite number");
  }
}

TEST(Text, CheckedProductKnowsItsLimit) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  EXPECT_EQ(checked_product(6, 7, "size"), 42);
  EXPECT_EQ(checked_product(0, std::numeric_limits<std::int64_t>::max(), "size"), 0);
  EXPECT_EQ(checked_product(std::numeric_limits<std::int64_t>::max(), 0, "size"), 0);
  EXPECT_EQ(checked_product(kHalf, kHalf, "size"), std::int64_t{1} << 62);
  EXPECT_NE(message_of([] { checked_product(kHalf, kHalf + 1, "size"); }), "");
  EXPECT_NE(message_of([] { checked_product(std::int64_t{1} << 62, 2, "size"); }), "");
  EXPECT_NE(message_of([] { checked_product(-1, 2, "size"); }), "");
  EXPECT_NE(message_of([] { checked_product(2, -1, "size"); }), "");
}

TEST(Text, FindsTheNearestName) {
  const std::vector<std::string> names{"reference", "per_sequence", "fused", "cp_local"};
  EXPECT_EQ(nearest_name("fusd", names), "fused");
  EXPECT_EQ(nearest_name("cp_locla", names), "cp_local");
  EXPECT_EQ(nearest_name("per-sequence", names), "per_sequence");
  EXPECT_EQ(nearest_name("fused", names), "fused");
  EXPECT_EQ(nearest_name("zzzzzzzz", names), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Text, UnknownNameMessage) {
  const std::vector<std::string> names{"fused", "cp_local"};
  EXPECT_EQ(unknown_name_message("implementation", "fusde", names),
            "unknown implementation 'fusde'; did you mean 'fused'?");
  EXPECT_EQ(unknown_name_message("implementation", "quantum", names),
            "unknown implementation 'quantum'; known: fused, cp_local");
}

TEST(Text, FormatNumberIsShortAndExact) {
  EXPECT_EQ(format_number(0.1), "0.1");
  EXPECT_EQ(format_number(1e-5), "1e-05");
  EXPECT_EQ(format_number(3), "3");
  EXPECT_EQ(format_number(-0.25), "-0.25");
  for (const double value : {1.0 / 3, 0.1 + 0.2, 1e300, 5e-324, -123456789.123456789}) {
    EXPECT_EQ(parse_number(format_number(value), "x"), value);
  }
}

TEST(Text, FormatBytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536 * 1024), "1.5 MiB");
  EXPECT_EQ(format_bytes(std::int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(format_bytes(std::int64_t{3} << 50), "3072.0 TiB");
}

TEST(Text, EscapeControlsLeavesNothingThatATerminalObeys) {
  EXPECT_EQ(escape_controls("plain, \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "plain, \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(escape_controls("a\x1B[31mb\r\n\tc\x7F"), "a\\u001b[31mb\\u000d\\n\\tc\\u007f");
  EXPECT_EQ(escape_controls(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(escape_controls("\xC2\x9B"
                            "31m\xC2\xA0"),
            "\\u009b"
            "31m\xC2\xA0");  // C1: CSI
  // Half a character, an overlong character, a character beyond Unicode, and a single byte.
  EXPECT_EQ(escape_controls("\xE2\x82"), "\\xe2\\x82");
  EXPECT_EQ(escape_controls("\xE0\x80\x9B"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(escape_controls("\xC0\x9B\xFF\x9B"), "\\xc0\\x9b\\xff\\x9b");
  EXPECT_EQ(escape_controls("one\ntwo\x1B\n", "\n"), "one\ntwo\\u001b\n");
}

}  // namespace
}  // namespace lossgrid
