// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/suite.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "expect_error.h"
#include "harness/core/text.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(LOSSGRID_SOURCE_DIR) / "cases";

class CasesFolder {
 public:
  explicit CasesFolder(const fs::path& folder) { setenv("LOSSGRID_CASES_DIR", folder.c_str(), 1); }
  ~CasesFolder() { unsetenv("LOSSGRID_CASES_DIR"); }
};

class SuiteFile : public testing::Test {
 protected:
  SuiteFile() {
    folder_ = fs::path(testing::TempDir()) / ("lossgrid_suite_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "regress");
  }
  ~SuiteFile() override { fs::remove_all(folder_); }

  std::string write(const std::string& text, const std::string& name = "s.json") {
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

/// The suites of the repository: right, and every case of them can be made for every grid.
TEST(Suites, OfTheRepositoryAreRight) {
  const CasesFolder use(kCases);
  const std::vector<std::string> names = suite_names();
  for (const std::string wanted : {"ci",
                                   "distill",
                                   "dpo",
                                   "grpo",
                                   "gspo",
                                   "layouts",
                                   "linear",
                                   "linear_chunks",
                                   "nightly",
                                   "perf",
                                   "perf_gpu",
                                   "perf_grid",
                                   "perf_linear",
                                   "perf_slow_paths",
                                   "perf_smoke",
                                   "peers",
                                   "regress/bf16_gradient_bias",
                                   "regress/c0_bin_fill",
                                   "smoke",
                                   "upstream"}) {
    EXPECT_THAT(names, testing::Contains(wanted));
  }
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Suite suite = read_suite(find_suite(name).at(0));
    EXPECT_EQ(suite.name, name);
    EXPECT_FALSE(suite.summary.empty());
    std::set<std::string> case_names;
    std::set<std::string> case_texts;
    for (const CaseSpec& spec : suite.cases) {
      SCOPED_TRACE(spec.name);
      EXPECT_TRUE(case_names.insert(spec.name).second);
      EXPECT_TRUE(case_texts.insert(format_case(spec)).second) << "computes what another case does";
      // The weights of real models would take minutes to draw here, and have the same rules.
      CaseSpec small = spec;
      small.vocab = std::min<std::int64_t>(spec.vocab, 1 << 12);
      small.hidden = std::min<std::int64_t>(spec.hidden, 1 << 9);
      const Problem problem = make_problem(small);
      for (const Grid& grid : suite.grids) {
        for (const int size : grid.cp_sizes()) {
          EXPECT_NO_THROW(require_fits(problem, grid.with_cp(size)));
        }
      }
    }
  }
}

/// Logits of about 1 GiB, three sequences of unequal lengths.
TEST(Suites, PerfHasRealVocabulariesInBothDtypes) {
  const Suite perf = read_suite((kCases / "perf.json").string());
  EXPECT_TRUE(perf.timing);
  std::set<std::pair<std::int64_t, DType>> covered;
  for (const CaseSpec& spec : perf.cases) {
    SCOPED_TRACE(spec.name);
    covered.emplace(spec.vocab, spec.dtype);
    const std::vector<std::string> lengths = split(spec.lens, '+');
    EXPECT_EQ(std::set(lengths.begin(), lengths.end()).size(), 3u);
    std::int64_t tokens = 0;
    for (const std::string& length : lengths) tokens += std::stoll(length);
    const double bytes =
        static_cast<double>(tokens * spec.vocab) * static_cast<double>(size_of(spec.dtype));
    EXPECT_NEAR(bytes / (1 << 30), 1, 0.05);
  }
  for (const std::int64_t vocab : {32768, 128256, 151936}) {
    EXPECT_TRUE(covered.contains({vocab, DType::f32})) << vocab;
    EXPECT_TRUE(covered.contains({vocab, DType::bf16})) << vocab;
  }
}

/// Batches of the published times, and the upstream batch for the speed-up.
TEST(Suites, PerfGpuHasTheShapesOfPeersAndOfCommonVocabularies) {
  const Suite perf = read_suite((kCases / "perf_gpu.json").string());
  ASSERT_TRUE(perf.timing);
  EXPECT_EQ(perf.timing->baseline, "per_sequence");
  EXPECT_EQ(perf.timing->caches, (std::vector{CacheMode::hot, CacheMode::cold}));
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, DType>> shapes;
  for (const CaseSpec& spec : perf.cases) {
    const std::vector<std::int64_t> lengths = case_lengths(spec);
    const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    shapes.emplace(tokens, spec.hidden, spec.vocab, spec.dtype);
  }
  CaseSpec upstream = read_suite((kCases / "upstream.json").string()).cases.at(0);
  upstream.statistics = false;
  EXPECT_EQ(format_case(perf.cases.back()), format_case(upstream));
  const std::vector<std::int64_t> lengths = case_lengths(upstream);
  shapes.erase(
      {std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 0, 512, DType::f32});
  EXPECT_EQ(shapes, (decltype(shapes){{8192, 0, 131072, DType::bf16},
                                      {8192, 0, 128256, DType::f32},
                                      {8192, 0, 32768, DType::bf16},
                                      {8192, 0, 32768, DType::f32},
                                      {8192, 0, 151936, DType::bf16},
                                      {8192, 0, 151936, DType::f32},
                                      {8192, 4096, 131072, DType::bf16},
                                      {8192, 2304, 256000, DType::bf16}}));
}

TEST(Suites, PerfSmokeTimesWhatPerfDoesOnAllPathsInSeconds) {
  const Suite smoke = read_suite((kCases / "perf_smoke.json").string());
  EXPECT_EQ(smoke.implementations, read_suite((kCases / "perf.json").string()).implementations);
  EXPECT_THAT(smoke.grids, testing::Contains(Grid{2, 1}));
  EXPECT_THAT(smoke.grids, testing::Contains(Grid{1, 2}));
  ASSERT_TRUE(smoke.timing);
  EXPECT_EQ(smoke.timing->caches, (std::vector{CacheMode::hot, CacheMode::cold}));
  const auto timings = smoke.cases.size() * smoke.grids.size() * smoke.timing->caches.size();
  EXPECT_LT(static_cast<double>(timings) * smoke.timing->max_seconds, 15);
}

TEST(Suites, CiHasTheCasesThatItNames) {
  const Suite ci = read_suite((kCases / "ci.json").string());
  EXPECT_GE(ci.cases.size(), 35u);
  EXPECT_LE(ci.cases.size(), 371u);  // 14 x 11 trials each, three minutes in all
  for (const CaseSpec& spec : ci.cases) {
    SCOPED_TRACE(spec.name);
    const Problem problem = make_problem(spec);
    EXPECT_LE(problem.tokens(), 128);
    if (spec.name == "C8 microbatch with 10 of 16 tokens") {
      EXPECT_EQ(problem.row_valid(),
                (std::vector<std::uint8_t>{1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0}));
    } else if (spec.name == "C4 nothing valid on one cp rank") {
      const PackedBatch batch = pack(problem, Grid{1, 2});
      const ShiftedBatch shifted = shift_targets(batch);
      for (const std::int64_t row : cp_rows(batch, 2, 1)) {
        EXPECT_EQ(shifted.valid[row], 0);
      }
    } else if (spec.name == "C3 mask only on first tokens of chunks") {
      const auto valid = problem.row_valid();
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t o = 1; o < problem.lengths[i]; ++o) {
          EXPECT_EQ(valid[problem.cu_seqlens[i] + o - 1], o % (problem.lengths[i] / 16) == 0);
        }
      }
    } else if (spec.name == "one valid target") {
      EXPECT_EQ(problem.denominators.valid_tokens, 1);
    } else if (spec.name.find("nothing valid") != std::string::npos) {
      EXPECT_EQ(problem.denominators.valid_tokens, 0);
    } else {
      EXPECT_TRUE(problem.tokens() == 0 || problem.denominators.valid_tokens > 0);
    }
  }
}

/// The suites of objectives have groups and pairs whose lengths differ, prompts that are masked,
/// and splits over microbatches and dp ranks.
TEST(Suites, OfObjectivesHaveRaggedBatchesWithMaskedPrompts) {
  for (const std::string name : {"grpo", "gspo", "dpo"}) {
    const Suite suite = read_suite((kCases / (name + ".json")).string());
    EXPECT_TRUE(std::any_of(suite.grids.begin(), suite.grids.end(),
                            [](const Grid& grid) { return grid.dp > 1; }));
    bool bf16 = false;
    bool microbatches = false;
    for (const CaseSpec& spec : suite.cases) {
      SCOPED_TRACE(name + ": " + spec.name);
      EXPECT_EQ(spec.objective.kind, name == "dpo" ? "dpo" : "clipped_pg");
      bf16 = bf16 || spec.dtype == DType::bf16;
      microbatches = microbatches || spec.microbatches > 1;
      const Problem problem = make_problem(spec);
      EXPECT_EQ(problem.sequences(), 8);
      EXPECT_LE(problem.tokens(), 512);
      EXPECT_GT(problem.denominators.valid_tokens, problem.tokens() / 4);
      for (std::int64_t i = 0; i < 8; ++i) {  // a prompt, then a response
        const auto mask = problem.token_mask.begin() + problem.cu_seqlens[i];
        const auto end = mask + problem.lengths[i];
        EXPECT_TRUE(std::is_sorted(mask, end));
        EXPECT_GE(std::count(mask, end, 0), std::min<std::int64_t>(4, problem.lengths[i] * 2 / 5));
        EXPECT_TRUE(problem.lengths[i] <= 8 || *(end - 1) == 1);
      }
      EXPECT_GE(std::set<std::int64_t>(problem.lengths.begin(), problem.lengths.end()).size(), 5u);
      for (std::size_t pair = 0; name == "dpo" && pair < 8; pair += 2) {
        EXPECT_NE(problem.lengths[pair], problem.lengths[pair + 1]);
        EXPECT_EQ(problem.sample_mask[pair], problem.sample_mask[pair + 1]);
      }
    }
    EXPECT_TRUE(bf16) << name;
    EXPECT_TRUE(microbatches) << name;
  }
}

}  // namespace
}  // namespace lossgrid
