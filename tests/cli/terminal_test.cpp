// SPDX-License-Identifier: Apache-2.0
// Output on a pseudo terminal of 80 columns and 24 lines: no line of a table is longer, and
// failures are red. Through a pipe the same output is complete and without colours.
#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRed = "\033[31m";

/// Returns the stdout of `arguments` on a terminal. `environment` precedes the command: "NAME=value
/// ...".
std::string on_80_columns(const std::string& arguments, const std::string& environment = "") {
  winsize size{};
  size.ws_col = 80;
  size.ws_row = 24;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const std::string command = "cd '" LOSSGRID_SOURCE_DIR "' && exec env -u COLUMNS -u NO_COLOR " +
                                ("TERM=xterm " + environment) + " '" LOSSGRID_EXECUTABLE "' " +
                                arguments + " 2>/dev/null </dev/null";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  std::string seen;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof(buffer))) > 0;) {
    seen.append(buffer, static_cast<std::size_t>(got));
  }
  close(terminal);
  waitpid(child, nullptr, 0);
  std::string text;
  for (const char c : seen) {
    if (c != '\r') text += c;
  }
  return text;
}

/// Returns the columns of a line on a terminal: characters, not bytes, without escape sequences.
std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (std::size_t k = 0; k < line.size(); ++k) {
    if (line[k] == '\033') {
      k = line.find('m', k);
    } else if ((line[k] & 0xC0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

/// True for lines that may be longer: reasons, and lines to be copied.
bool may_be_long(const std::string& line) {
  for (const char* begin : {"reproduce: ", "reason: ", "explanation: ", "skipped ",
                            "case: ", "failed: ", "report: ", "rank ", "worst ", "note: "}) {
    if (line.find(begin) != std::string::npos) return true;
  }
  return false;
}

void expect_to_fit(const std::string& text) {
  EXPECT_FALSE(text.empty());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (may_be_long(line)) continue;
    EXPECT_LE(columns_of(line), 80u) << line;
  }
}

/// Returns `text` with blanks for line breaks.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

constexpr const char* kTerminalRun =
    "run --case 'lens=5+8 vocab=24' --impl fused,cp_local,fused:chunk_tokens=3 --grid "
    "tp1cp1,tp2cp1 ";

TEST(Terminal, TablesFitEightyColumnsAndNameWhatTheyLeaveOut) {
  const std::string trials = on_80_columns(kTerminalRun);
  expect_to_fit(trials);
  EXPECT_THAT(trials, HasSubstr("columns left out: "));
  EXPECT_THAT(one_line(trials), HasSubstr("(the terminal has 80 columns; --report has all)"));
  EXPECT_THAT(trials, HasSubstr("fused:chunk_tokens=3"));
  const std::string linear = on_80_columns(
      "run --case 'lens=5+8 vocab=24 hidden=[8,9]' --impl "
      "linear_materialized,linear_ce");
  EXPECT_THAT(linear, HasSubstr("Peak memory without inputs"));
  expect_to_fit(linear);
  expect_to_fit(on_80_columns(
      "bench --case 'lens=5+8 vocab=24' --impl fused,cp_local --grid tp2cp1 --min-samples 2 "
      "--target-stderr 1"));
  expect_to_fit(
      on_80_columns("mutants --suite smoke --impl "
                    "mutant/advantage_of_previous_token,mutant/chunks_swapped"));
  expect_to_fit(on_80_columns(
      "plan --case 'lens=512 vocab=32768 dtype=bf16' --impl fused --grid tp2cp4,tp1cp1"));
}

TEST(Terminal, ListsFitEightyColumns) {
  for (const char* kind :
       {"suites", "implementations", "objectives", "mutants", "keys", "frameworks", "models",
        "machines", "backends", "transports", "exports"}) {
    std::istringstream lines(on_80_columns(fmt::format("list {}", kind)));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("https://") != std::string::npos) continue;  // one word
      EXPECT_LE(columns_of(line), 80u) << line;
    }
  }
}

TEST(Terminal, ComparisonsFitEightyColumns) {
  const ScratchFolder scratch;
  const std::string base = scratch.file("base.json");
  const std::string head = scratch.file("head.json");
  run_lossgrid(scratch, std::string(kTerminalRun) + "--report " + base);
  run_lossgrid(scratch, std::string(kTerminalRun) +
                            "--inject rank=0,at=backward,trial=2,kind=nan --report " + head);
  const std::string compared = on_80_columns("compare " + base + " " + head);
  expect_to_fit(compared);
  EXPECT_THAT(compared, HasSubstr(kRed + std::string("regressed")));
  EXPECT_THAT(one_line(compared), HasSubstr("--format json has all"));
  const std::string gated =
      on_80_columns("gate " + base + " " + head + " --policy reports/policies/exact.json");
  expect_to_fit(gated);
  EXPECT_THAT(gated, HasSubstr(kRed + std::string("failed")));
  // Output into a file is complete and without colours.
  on_80_columns("compare " + base + " " + head + " --out " + scratch.file("out"));
  EXPECT_THAT(read_all(scratch.file("out")), Not(HasSubstr("\033")));
  EXPECT_THAT(read_all(scratch.file("out")), HasSubstr("head / base"));
}

TEST(Terminal, FailuresAreRedUnlessColoursAreOff) {
  const std::string failing =
      std::string(kTerminalRun) + "--inject rank=0,at=backward,trial=2,kind=nan";
  const std::string red = on_80_columns(failing);
  EXPECT_THAT(red, HasSubstr(kRed + std::string("failed\033[0m: ")));
  EXPECT_THAT(red, HasSubstr(kRed + std::string("1\033[0m")));
  EXPECT_THAT(on_80_columns(kTerminalRun), Not(HasSubstr("\033")));
  EXPECT_THAT(on_80_columns(failing, "NO_COLOR=1"), Not(HasSubstr("\033")));
  EXPECT_THAT(on_80_columns(failing, "TERM=dumb"), Not(HasSubstr("\033")));
  EXPECT_THAT(on_80_columns(failing, "NO_COLOR="), HasSubstr(kRed));
  const ScratchFolder scratch;
  EXPECT_THAT(run_lossgrid(scratch, failing).out, Not(HasSubstr("\033")));
}

TEST(Terminal, ColumnsSetsTheWidthAndAPipeHasAll) {
  EXPECT_THAT(on_80_columns(kTerminalRun, "COLUMNS=200"), Not(HasSubstr("columns left out")));
  EXPECT_THAT(one_line(on_80_columns(kTerminalRun, "COLUMNS=60")),
              HasSubstr("the terminal has 60"));
  EXPECT_THAT(one_line(on_80_columns(kTerminalRun, "COLUMNS=no")),
              HasSubstr("the terminal has 80"));
  const ScratchFolder scratch;
  EXPECT_THAT(run_executable(scratch, "env",
                             fmt::format("COLUMNS=60 '{}' {}", LOSSGRID_EXECUTABLE, kTerminalRun))
                  .out,
              HasSubstr("worst at"));
}

}  // namespace
}  // namespace lossgrid
