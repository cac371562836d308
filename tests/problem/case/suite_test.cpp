// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/suite.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "case/cases_folder.h"
#include "expect_error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

class SuiteFile : public testing::Test {
 protected:
  SuiteFile() {
    folder_ = fs::path(testing::TempDir()) / ("lossgrid_suite_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "regress");
  }
  ~SuiteFile() override { fs::remove_all(folder_); }

  std::string write(const std::string& text, const std::string& name = "s.json") {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  /// A right suite with one member replaced, "" to leave it out.
  std::string suite(const std::string& key = "suite", const std::string& value = "1") {
    std::vector<std::pair<std::string, std::string>> members{
        {"suite", "1"},
        {"name", "\"s\""},
        {"summary", "\"for a test\""},
        {"grids", "[\"tp1cp1\", \"tp2cp4\"]"},
        {"implementations", "[\"reference\", \"fused:chunk_tokens=7\"]"},
        {"cases", "[{\"name\": \"a\", \"vocab\": [8, 9]}, {\"lens\": \"5+8\"}]"}};
    bool found = false;
    std::string text;
    for (auto& [known, text_of] : members) {
      if (known == key) {
        text_of = value;
        found = true;
      }
    }
    if (!found) members.emplace_back(key, value);
    for (const auto& [name, json] : members) {
      if (!json.empty()) text += (text.empty() ? "{\n\"" : ",\n\"") + name + "\": " + json;
    }
    return write(text + "\n}\n");
  }

  fs::path folder_;
};

TEST_F(SuiteFile, IsRead) {
  const Suite read = read_suite(suite());
  EXPECT_EQ(read.name, "s");
  EXPECT_EQ(read.summary, "for a test");
  EXPECT_EQ(read.grids, (std::vector<Grid>{{1, 1}, {2, 4}}));
  EXPECT_EQ(read.implementations, (std::vector<std::string>{"reference", "fused:chunk_tokens=7"}));
  ASSERT_EQ(read.cases.size(), 3u);
  EXPECT_EQ(read.cases[1].name, "a vocab=9");
  EXPECT_EQ(read.cases[2].name, "lens=5+8");  // without a name: its text
}

TEST_F(SuiteFile, ErrorsNameTheFileTheEntryAndTheRule) {
  const auto expect = [&](const std::string& key, const std::string& value,
                          std::vector<std::string> parts) {
    const std::string path = suite(key, value);
    parts.push_back("s.json");
    expect_bad_input([&] { read_suite(path); }, parts);
  };
  expect("suite", "2", {"suite = 2", "version 1"});
  expect("suite", "", {"no 'suite'"});
  expect("name", "", {"no 'name'"});
  expect("name", "3", {"name", "not a string"});
  expect("summary", "3", {"summary", "not a string"});
  expect("grid", "[]", {"unknown suite key 'grid'", "'grids'"});
  expect("grids", "[]", {"grids", "at least one"});
  expect("grids", "\"tp1cp1\"", {"grids", "array"});
  expect("grids", "[\"tp1cp1\", \"tpx\"]", {"grids[1]", "tpx"});
  expect("grids", "[\"tp1cp1\", \"tp1cp1\"]", {"grids", "'tp1cp1' twice"});
  expect("implementations", "[3]", {"implementations[0]", "3"});
  expect("implementations", "[\"\"]", {"implementations[0]"});
  expect("cases", "[]", {"cases", "at least one"});
  expect("cases", "[3]", {"cases[0]", "JSON object"});
  expect("cases", "[{}, {\"name\": \"b\", \"vocb\": 8}]", {"cases[1] 'b'", "'vocb'", "'vocab'"});
  expect("cases", "[{\"vocab\": 0}]", {"cases[0]", "vocab = 0"});
  expect("cases", "[{\"name\": \"b\"}, {\"name\": \"b\", \"vocab\": 8}]",
         {"cases[1] 'b'", "another case"});
  expect("cases", "[{\"vocab\": 8, \"vocab\": 9}]", {"\"vocab\"", "twice"});
  expect("cases", "[{\"scale\": 1e999}]", {"malformed JSON"});
  expect("cases", std::string(20, '['), {"16 levels"});
}

TEST_F(SuiteFile, TakesCasesAndSkipsOfThePartsThatJoinIt) {
  const std::string part =
      "{\"suite\": 1, \"joins\": \"s\", \"cases\": [{\"name\": \"c\"}], \"skips\": "
      "[{\"implementation\": \"fused\", \"case\": \"vocab=9\", \"reason\": \"no\"}]}";
  write(part, "parts/b/cases.json");
  write("{\"suite\": 1, \"joins\": \"other\", \"cases\": [{}]}", "parts/other/cases.json");
  write("{\"suite\": 1, \"joins\": \"s\", \"cases\": [{\"name\": \"b\"}]}", "parts/a/cases.json");
  write("no part", "parts/a/notes.json");
  const std::string path = suite("parts", "\"parts\"");
  expect_bad_input([&] { read_suite(path); }, {"parts/other/cases.json", "joins = other"});
  write("{}", "other.json");
  const Suite read = read_suite(path);
  ASSERT_EQ(read.cases.size(), 5u);  // behind those of its own, in the order of paths
  EXPECT_EQ(read.cases[3].name, "b");
  EXPECT_EQ(read.cases[4].name, "c");
  ASSERT_TRUE(read.skips);
  EXPECT_EQ(read.skips->size(), 1u);

  write("{\"suite\": 1, \"joins\": \"s\", \"cases\": [{\"name\": \"c\"}]}", "parts/a/cases.json");
  expect_bad_input([&] { read_suite(path); }, {"parts/b/cases.json", "'c'", "another case"});
  write("{\"suite\": 1, \"joins\": \"s\", \"grids\": []}", "parts/a/cases.json");
  expect_bad_input([&] { read_suite(path); }, {"parts/a/cases.json", "'grids'"});
  const std::string without = suite("parts", "\"none\"");
  expect_bad_input([&] { read_suite(without); }, {"parts = ", "none is not a folder"});
  for (const char* name : {"", ".", "..", "/", "parts/a"}) {
    const std::string elsewhere = suite("parts", std::string("\"") + name + '"');
    expect_bad_input([&] { read_suite(elsewhere); }, {"parts = ", "name of a folder beside"});
  }
}

TEST_F(SuiteFile, MayAskForTiming) {
  EXPECT_FALSE(read_suite(suite()).timing);
  const Suite few = read_suite(suite("timing", "{\"baseline\": \"fused:chunk_tokens=7\"}"));
  ASSERT_TRUE(few.timing);
  EXPECT_EQ(few.timing->baseline, "fused:chunk_tokens=7");
  EXPECT_EQ(few.timing->caches, std::vector{CacheMode::hot});
  EXPECT_EQ(few.timing->min_samples, 10);
  EXPECT_EQ(few.timing->target_stderr, 0.01);
  const Suite all = read_suite(
      suite("timing",
            "{\"baseline\": \"reference\", \"cache\": [\"cold\", \"hot\"], \"min_samples\": 25, "
            "\"max_seconds\": 2.5, \"target_stderr\": 0.05}"));
  ASSERT_TRUE(all.timing);
  EXPECT_EQ(all.timing->caches, (std::vector{CacheMode::cold, CacheMode::hot}));
  EXPECT_EQ(all.timing->min_samples, 25);
  EXPECT_EQ(all.timing->max_seconds, 2.5);
  EXPECT_EQ(all.timing->target_stderr, 0.05);
}

TEST_F(SuiteFile, TimingHasRules) {
  const auto expect = [&](const std::string& timing, std::vector<std::string> parts) {
    const std::string path = suite("timing", timing);
    parts.push_back("timing");
    expect_bad_input([&] { read_suite(path); }, parts);
  };
  const auto expect_key = [&](const std::string& key, const std::string& value,
                              std::vector<std::string> parts) {
    parts.push_back(key);
    parts.push_back("s.json");
    expect("{\"baseline\": \"reference\", \"" + key + "\": " + value + "}", parts);
  };
  expect("11", {"JSON object", "number"});
  expect("{\"min_samples\": 11}", {"no 'baseline'"});
  expect("{\"baseline\": 3}", {"baseline", "not a string"});
  expect("{\"baseline\": \"referense\"}",
         {"unknown baseline 'referense'", "'reference'", "implementations"});
  expect("{\"baseline\": \"fused\"}", {"unknown baseline 'fused'"});
  expect("{\"baseline\": \"reference\", \"rounds\": 11}", {"unknown timing key 'rounds'"});
  for (const char* samples : {"1", "-1", "1001"}) {
    expect_key("min_samples", samples, {"[2, 1000]"});
  }
  for (const char* samples : {"10.5", "\"11\"", "null"}) {
    expect_key("min_samples", samples, {"not an integer"});
  }
  for (const char* seconds : {"0", "-1", "1e7"}) expect_key("max_seconds", seconds, {"(0, "});
  expect_key("max_seconds", "\"1\"", {"not a number"});
  for (const char* target : {"0", "-0.1", "1.5"}) expect_key("target_stderr", target, {"(0, 1]"});
  expect_key("cache", "[]", {"at least one"});
  expect_key("cache", "\"hot\"", {"array"});
  expect_key("cache", "[\"hot\", \"hot\"]", {"twice"});
  expect_key("cache", "[\"warm\"]", {"'warm'", "neither hot nor cold"});
}

TEST_F(SuiteFile, MalformedJsonIsNamedWithItsLine) {
  const std::string path = write("{\n\"suite\": 1,\n\"name\": oops\n}\n");
  expect_bad_input([&] { read_suite(path); }, {"s.json:3:", "malformed JSON"});
  const std::string cut = write("{\n\"suite\": 1,\n");
  expect_bad_input([&] { read_suite(cut); }, {"s.json:", "malformed JSON", "end of input"});
  const std::string empty = write("");
  expect_bad_input([&] { read_suite(empty); }, {"s.json:1:", "malformed JSON"});
  const std::string list = write("[]");
  expect_bad_input([&] { read_suite(list); }, {"s.json", "JSON object"});
  expect_bad_input([&] { read_suite((folder_ / "none.json").string()); }, {"none.json"});
}

TEST_F(SuiteFile, IsFoundByNameOrPath) {
  suite();
  fs::copy_file(folder_ / "s.json", folder_ / "regress" / "one.json");
  fs::copy_file(folder_ / "s.json", folder_ / "regress" / "another.json");
  write("not a suite", "notes.txt");
  const CasesFolder use(folder_);
  EXPECT_EQ(cases_directory(), folder_.string());
  EXPECT_EQ(suite_names(), (std::vector<std::string>{"regress/another", "regress/one", "s"}));
  const auto path = [&](const std::string& name) { return (folder_ / name).string(); };
  EXPECT_EQ(find_suite("s"), std::vector<std::string>{path("s.json")});
  EXPECT_EQ(find_suite("regress/one"), std::vector<std::string>{path("regress/one.json")});
  EXPECT_EQ(find_suite("regress"),
            (std::vector<std::string>{path("regress/another.json"), path("regress/one.json")}));
  EXPECT_EQ(find_suite(path("s.json")), std::vector<std::string>{path("s.json")});
  expect_bad_input([] { find_suite("regress/on"); }, {"unknown suite", "'regress/one'"});
  expect_bad_input([] { find_suite("nowhere.json"); }, {"nowhere.json"});
}

TEST_F(SuiteFile, AFolderThatIsNotThereIsNamed) {
  const CasesFolder use(folder_ / "none");
  expect_bad_input([] { cases_directory(); }, {"LOSSGRID_CASES_DIR", "none"});
}

TEST_F(SuiteFile, TheWorkingDirectoryDoesNotShadowTheSuitesOfTheBuild) {
  fs::create_directories(folder_ / "cases");
  write("{}", "cases/models.json");
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  std::error_code failed;
  EXPECT_TRUE(fs::equivalent(cases_directory(), kCases, failed)) << cases_directory();
  fs::current_path(before);
}

TEST_F(SuiteFile, SuitesOfAnInstallationComeFirstThenThoseAboveTheExecutable) {
  const std::string executable = (folder_ / "opt/bin/lossgrid").string();
  for (const char* cases : {"cases", "opt/bin/cases", "opt/share/lossgrid/cases"}) {
    fs::create_directories(folder_ / cases);
  }
  const auto path = [&](const char* name) { return (folder_ / name).string(); };
  EXPECT_EQ(cases_near(executable), "");  // none of them holds suites
  write("{}", "cases/models.json");
  EXPECT_EQ(cases_near(executable), path("cases"));
  write("{}", "opt/bin/cases/models.json");
  EXPECT_EQ(cases_near(executable), path("opt/bin/cases"));
  write("{}", "opt/share/lossgrid/cases/models.json");
  EXPECT_EQ(cases_near(executable), path("opt/share/lossgrid/cases"));
  EXPECT_EQ(cases_near(""), "");
}

}  // namespace
}  // namespace lossgrid
