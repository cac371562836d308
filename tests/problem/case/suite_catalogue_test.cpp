// SPDX-License-Identifier: Apache-2.0
// The suites of the repository: all are right, and have the cases and shapes that they are for.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "case/cases_folder.h"
#include "harness/core/text.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

/// The suites of the repository: right, and every case of them can be made for every grid.
TEST(Suites, AllOfTheRepositoryAreRight) {
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
                                   "regress/approximated_selection",
                                   "regress/bf16_gradient_bias",
                                   "regress/bounds_at_extremes",
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
  EXPECT_LE(ci.cases.size(), 400u);  // 14 x 11 trials each, three minutes in all
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
TEST(Suites, ForObjectivesHaveRaggedBatchesWithMaskedPrompts) {
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
