// SPDX-License-Identifier: Apache-2.0
// Tests of "gbench": the text of one row, its schema, and Google Benchmark's own compare.py if that
// is installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "json_schema.h"
#include "shell.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kExpectedGbench = R"json({
  "context": {
    "date": "2026-01-02T03:04:05Z",
    "host_name": "",
    "executable": "lossgrid",
    "num_cpus": 2,
    "mhz_per_cpu": 0,
    "caches": [],
    "load_avg": [],
    "library_build_type": "release",
    "json_schema_version": 1,
    "cpu_model": "a model",
    "lossgrid_version": "0.1.0",
    "git_revision": ""
  },
  "benchmarks": [
    {
      "name": "trial/lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/forward_backward/hot/real_time",
      "family_index": 0,
      "per_family_instance_index": 0,
      "run_name": "trial/lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/forward_backward/hot/real_time",
      "run_type": "iteration",
      "repetitions": 2,
      "repetition_index": 0,
      "threads": 2,
      "iterations": 1,
      "real_time": 2000000,
      "cpu_time": 2000000,
      "time_unit": "ns",
      "items_per_second": 32000.0
    },
    {
      "name": "trial/lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/forward_backward/hot/real_time",
      "family_index": 0,
      "per_family_instance_index": 0,
      "run_name": "trial/lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/forward_backward/hot/real_time",
      "run_type": "iteration",
      "repetitions": 2,
      "repetition_index": 1,
      "threads": 2,
      "iterations": 1,
      "real_time": 1999000,
      "cpu_time": 1999000,
      "time_unit": "ns",
      "items_per_second": 32016.008004002
    }
  ]
}
)json";

TEST(Gbench, HoldsEverySampleOfTheTimedRow) {
  RunRecord run = bench_run();
  run.timings[0].rows.back().time = sample_time(2'000'000, 2);
  EXPECT_EQ(exported("gbench", run), kExpectedGbench);
}

TEST(Gbench, IsOfTheSchema) {
  expect_schema("gbench", "gbench.schema.json");
}

TEST(Gbench, ComparePyComparesTwoRuns) {
  const std::string compare = "/usr/bin/python3 /usr/share/benchmark/compare.py";
  if (!shell_has(compare + " --help")) {
    GTEST_SKIP() << "no compare.py with scipy (libbenchmark-tools, python3-scipy)";
  }
  const TemporaryFolder folder;
  RunRecord run = sample_bench_run();
  write_file_atomically(folder.file("a.json"), exported("gbench", run));
  for (TimingRow& row : run.timings[0].rows) {
    for (std::int64_t& sample : row.time.samples_ns) sample *= 2;
  }
  write_file_atomically(folder.file("b.json"), exported("gbench", run));
  const ShellOutcome outcome = run_shell(compare + " --no-color benchmarks " +
                                         folder.file("a.json") + " " + folder.file("b.json"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              testing::ContainsRegex("trial/lens=64 vocab=512/fused:chunk_tokens=7/tp2cp1/"
                                     "forward_backward/hot/real_time +\\+1\\.0000 +\\+1\\.0000"));
  EXPECT_THAT(outcome.output,
              HasSubstr("hot/real_time_pvalue "));  // took the samples for repetitions
  EXPECT_THAT(outcome.output, HasSubstr("U Test, Repetitions: 11 vs 11"));
}

}  // namespace
}  // namespace lossgrid
