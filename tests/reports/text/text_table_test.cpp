// SPDX-License-Identifier: Apache-2.0
#include "reports/text/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TextTable, AlignsByColumnsNotBytes) {
  TextTable table;
  table.add_column("name", Align::left);
  table.add_column("n", Align::right);
  EXPECT_EQ(table.text(), "");
  table.add_title("title");
  table.add_row({"\xc3\xa9t\xc3\xa9", "10"});
  table.add_row({"x", "5"});
  EXPECT_EQ(table.text(), "  name   n\ntitle\n  \xc3\xa9t\xc3\xa9   10\n  x      5\n");
}

/// Returns a table of three columns of 4, 8 and 30, with a note of its own below.
TextTable wide_table() {
  TextTable table;
  table.add_column("name", Align::left);
  table.add_column("verdict", Align::left);
  table.add_column("count", Align::right);
  table.add_column("why", Align::prose);
  table.may_leave_out({"count", "why"}, "--report has all");
  table.add_title("a title that is longer than forty columns are wide");
  table.add_row({"one", "failed", "12345", "a reason of many words that goes on and on"});
  table.mark_bad(1);
  table.add_row({"two", "passed", "1", "short"});
  table.add_whole_line("a command that is longer than forty columns are wide");
  return table;
}

TEST(TextTable, BreaksProseBeforeItLeavesOutColumns) {
  EXPECT_EQ(wide_table().text({60, false}),
            "  name  verdict  count  why\n"
            "a title that is longer than forty columns are wide\n"
            "  one   failed   12345  a reason of many words that goes on\n"
            "                        and on\n"
            "  two   passed       1  short\n"
            "a command that is longer than forty columns are wide\n");
}

TEST(TextTable, LeavesOutTheLeastImportantAndNamesThem) {
  EXPECT_EQ(wide_table().text({44, false}),
            "  name  verdict  why\n"
            "a title that is longer than forty columns...\n"
            "  one   failed   a reason of many words that\n"
            "                 goes on and on\n"
            "  two   passed   short\n"
            "a command that is longer than forty columns are wide\n"
            "columns left out: count (the terminal has 44\n"
            "columns; --report has all)\n");
}

TEST(TextTable, ShortensNamesAtLast) {
  TextTable table;
  table.add_column("implementation", Align::left);
  table.add_column("ms", Align::right);
  table.add_row({"fused:chunk_tokens=4096:other=1", "1.25"});
  EXPECT_EQ(table.text({24, false}),
            "  implementation      ms\n"
            "  fused:ch\u2026other=1  1.25\n");
  EXPECT_EQ(table.text(),
            "  implementation                     ms\n"
            "  fused:chunk_tokens=4096:other=1  1.25\n");
}

TEST(TextTable, ShowsWhatIsBadInRedWhereColoursAre) {
  EXPECT_THAT(wide_table().text({0, true}), HasSubstr("  one   \033[31mfailed\033[0m   12345  a"));
  EXPECT_THAT(wide_table().text({0, false}), Not(HasSubstr("\033")));
}

TEST(TextTable, ShortensWholeCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 6),
            "\xc3\xa9\xc3\xa9\xc3\xa9...");
  EXPECT_EQ(shortened("a\nb", 6), "a b");
}

TEST(TextTable, ShortensInTheMiddle) {
  EXPECT_EQ(shortened_in_the_middle("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened_in_the_middle("abcdefg", 6), "abc\u2026fg");
  EXPECT_EQ(shortened_in_the_middle("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 4),
            "\u00e9\u00e9\u2026\u00e9");
}

TEST(TextTable, WrapsBetweenWords) {
  EXPECT_EQ(wrapped("ab cd ef", 5), "ab cd\nef\n");
  EXPECT_EQ(wrapped("ab cd ef", 4), "ab\ncd\nef\n");
  EXPECT_EQ(wrapped("abcdefg h", 4), "abcdefg\nh\n");
  EXPECT_EQ(wrapped("\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9", 5), "\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\n");
  EXPECT_EQ(wrapped("", 5), "");
}

}  // namespace
}  // namespace lossgrid
