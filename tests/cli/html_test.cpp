// SPDX-License-Identifier: Apache-2.0
// Tests of `lossgrid html` for users: the place of the file, refused input, and reports of a run
// that died. tests/reports/html/html_test.cpp opens pages in a browser.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"
#include "reports/file/report_reader.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;

class HtmlCommand : public testing::Test {
 protected:
  std::string report(const std::string& flags) {
    const std::string path = file("report.json");
    run_lossgrid(scratch_, "run --case 'lens=5+8 vocab=24' --impl fused --grid tp1cp1,tp2cp2 " +
                               flags + " --report " + path);
    return path;
  }
  ProcessResult html(const std::string& arguments) {
    return run_lossgrid(scratch_, "html " + arguments);
  }
  std::string file(const std::string& name) const { return scratch_.file(name); }

 private:
  ScratchFolder scratch_;
};

TEST_F(HtmlCommand, WritesBesideTheReportOrToTheGivenFile) {
  const std::string path = report("--inject rank=1,at=backward,trial=2,kind=nan");
  const ProcessResult beside = html(path);
  EXPECT_EQ(beside.exit_code, 0) << beside.err;
  EXPECT_EQ(beside.out, "html: " + file("report.html") + "\n");
  const std::string page = read_all(file("report.html"));
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(html(path + " -o " + file("new/page.html")).out,
            "html: " + file("new/page.html") + "\n");
  EXPECT_EQ(read_all(file("new/page.html")), page);
}

TEST_F(HtmlCommand, TakesAHistory) {
  const std::string path = report("");
  html(path);
  const std::string without = read_all(file("report.html"));
  write_all(file("history.jsonl"),
            R"({"schema": "lossgrid.history/1", "run": "0", "started_utc": "", "commit": "",)"
            R"( "case": "lens=5+8", "grid": "tp1cp1", "implementation": "fused", "backend": "cpu",)"
            R"( "peak_bytes": 1, "payload_bytes": 0, "calls": 0})"
            "\n");
  EXPECT_EQ(html(path + " --history " + file("history.jsonl")).exit_code, 0);
  EXPECT_NE(read_all(file("report.html")), without);
}

TEST_F(HtmlCommand, ReadsWhatAKilledRunLeft) {
  const std::string path = report("--inject rank=0,at=backward,trial=2,kind=kill");
  ASSERT_FALSE(std::filesystem::exists(path));
  const RunRecord left = read_report(path);
  ASSERT_TRUE(left.planned);
  EXPECT_EQ(left.planned->trials, 2);
  EXPECT_EQ(left.planned->timings, 0);
  EXPECT_EQ(left.trials.size(), 1u);
  EXPECT_EQ(left.begun_id, "lens=5+8 vocab=24|tp2cp2|fused|cpu");
  EXPECT_EQ(left.begun_reproduce,
            "lossgrid run --impl fused --grid tp2cp2 --case \"lens=5+8 vocab=24\"");
  EXPECT_EQ(html(path).exit_code, 0);
  EXPECT_THAT(read_all(file("report.html")), HasSubstr("</html>"));
}

TEST_F(HtmlCommand, RefusesInOneLine) {
  write_all(file("no_report.json"), "{}");
  write_all(file("newer.json"), R"({"schema": "lossgrid.report/2"})");
  const auto expect = [&](const std::string& arguments, int code, const std::string& message) {
    const ProcessResult result = html(arguments);
    EXPECT_EQ(result.exit_code, code) << arguments;
    EXPECT_THAT(result.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "") << arguments;
  };
  expect("", 64, "report");
  expect("nowhere.json", 65, "nowhere.json");
  expect(file("no_report.json"), 65, "no_report.json: the key 'schema' is missing");
  expect(file("newer.json"), 65, "version 2");
  write_all(file("no_history.jsonl"), "{}\n");
  expect(report("") + " --history " + file("no_history.jsonl"), 65, "no_history.jsonl: line 1");
  expect(report("") + " -o /proc/nowhere/page.html", 65, "/proc/nowhere");
}

}  // namespace
}  // namespace lossgrid
