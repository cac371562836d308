// SPDX-License-Identifier: Apache-2.0
// lossgrid_gbench as a process: the JSON as compare.py reads it, filters, exit codes, and one line
// for flags that make no sense. Cases are tiny; no time is compared with another.
#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kCase = "--case 'lens=5+8 vocab=96'";

ProcessResult run_gbench(const ScratchFolder& scratch, const std::string& arguments) {
  return run_executable(scratch, LOSSGRID_GBENCH_EXECUTABLE, arguments);
}

/// The entries of --benchmark_out, and the process.
struct Measured {
  ProcessResult process;
  json benchmarks;
};

Measured measure(const ScratchFolder& scratch, const std::string& arguments) {
  const std::string file = scratch.file("gbench.json");
  Measured measured;
  measured.process =
      run_gbench(scratch, arguments + " --benchmark_out=" + file + " --benchmark_out_format=json");
  measured.benchmarks = json::parse(read_all(file))["benchmarks"];
  return measured;
}

std::vector<std::string> names_of(const json& benchmarks) {
  std::vector<std::string> names;
  for (const json& entry : benchmarks) names.push_back(entry.at("name"));
  return names;
}

TEST(Gbench, WritesWhatCompareReads) {
  const ScratchFolder scratch;
  const auto [process, benchmarks] =
      measure(scratch, std::string(kCase) +
                           " --impl fused,one_sweep --grid tp2cp1 --iterations 7 "
                           "--benchmark_filter=^trial/ --benchmark_repetitions=5");
  EXPECT_EQ(process.exit_code, 0) << process.err;
  EXPECT_THAT(process.out, HasSubstr("trial/lens=5+8 vocab=96/one_sweep/tp2cp1/forward_backward"));
  std::map<std::string, int> iterations;
  std::map<std::string, std::set<std::int64_t>> peaks;  // the same in every repetition
  for (const json& entry : benchmarks) {
    EXPECT_TRUE(entry.at("cpu_time").is_number()) << entry;
    EXPECT_EQ(entry.at("time_unit"), "us");
    if (entry.at("run_type") != "iteration") continue;
    EXPECT_GT(entry.at("real_time").get<double>(), 0) << entry;
    EXPECT_EQ(entry.at("iterations"), 7);
    EXPECT_EQ(entry.at("ranks"), 2);
    ++iterations[entry.at("name")];
    peaks[entry.at("name")].insert(entry.at("max_bytes_used").get<std::int64_t>());
    const bool backward =
        entry.at("name").get<std::string>().find("/backward/") != std::string::npos;
    EXPECT_EQ(entry.contains("communication_ratio"), !backward) << entry;
  }
  const std::string of = "trial/lens=5+8 vocab=96/";
  const std::string end = "/iterations:7/manual_time";
  EXPECT_THAT(iterations,
              ElementsAre(std::pair(of + "fused/tp2cp1/backward" + end, 5),
                          std::pair(of + "fused/tp2cp1/forward" + end, 5),
                          std::pair(of + "fused/tp2cp1/forward_backward" + end, 5),
                          std::pair(of + "one_sweep/tp2cp1/forward_backward" + end, 5)));
  for (const auto& [name, bytes] : peaks) {
    ASSERT_EQ(bytes.size(), 1u) << name;
    EXPECT_GT(*bytes.begin(), 13 * 48 * 4) << name;
    EXPECT_LT(*bytes.begin(), 10 * 13 * 48 * 4) << name;
  }
}

// The same number as in the report of a run.
TEST(Gbench, MemoryIsThatOfATrial) {
  const ScratchFolder scratch;
  const std::string trial = std::string(kCase) + " --impl cp_gather_logits --grid tp2cp2";
  ASSERT_EQ(run_lossgrid(scratch, "run " + trial + " --report " + scratch.file("r.json")).exit_code,
            0);
  std::map<std::string, std::int64_t> peaks;
  const json report = json::parse(read_all(scratch.file("r.json")));
  for (const json& memory : report["trials"][0]["memory"]) {
    std::int64_t& peak = peaks[memory["phase"]];
    peak = std::max(peak, memory["measured_peak_with_inputs_bytes"].get<std::int64_t>());
  }
  const json benchmarks =
      measure(scratch, trial + " --iterations 2 --benchmark_filter=^trial").benchmarks;
  ASSERT_EQ(benchmarks.size(), 3u);
  EXPECT_EQ(benchmarks[0].at("max_bytes_used"), peaks["forward"]);
  EXPECT_EQ(benchmarks[1].at("max_bytes_used"), peaks["backward"]);
  EXPECT_EQ(benchmarks[2].at("max_bytes_used"), std::max(peaks["forward"], peaks["backward"]));
}

TEST(Gbench, WrongOutputsAreAnErrorAndExitTen) {
  const ScratchFolder scratch;
  const auto [process, benchmarks] =
      measure(scratch, std::string(kCase) +
                           " --impl mutant/gradient_times_2,fused --iterations 2 "
                           "--benchmark_filter=^trial");
  EXPECT_EQ(process.exit_code, 10);
  ASSERT_EQ(benchmarks.size(), 6u);
  for (const json& entry : benchmarks) {
    const bool wrong = entry.at("name").get<std::string>().find("mutant/") != std::string::npos;
    EXPECT_EQ(entry.value("error_occurred", false), wrong) << entry;
    if (!wrong) continue;
    EXPECT_THAT(entry.at("error_message").get<std::string>(), HasSubstr("grad_logits"));
  }
}

TEST(Gbench, WhenAllAreSkippedNothingRan) {
  const ScratchFolder scratch;
  const auto [process, benchmarks] = measure(
      scratch, std::string(kCase) + " --impl linear_ce --benchmark_filter=^trial/.*/forward/");
  EXPECT_EQ(process.exit_code, 77);
  ASSERT_EQ(benchmarks.size(), 1u);
  EXPECT_THAT(benchmarks[0].at("error_message").get<std::string>(), StartsWith("skipped: "));
  EXPECT_EQ(run_gbench(scratch, std::string(kCase) + " --benchmark_filter=no_such").exit_code, 77);
}

TEST(Gbench, KernelsStandBesidePlainCode) {
  const ScratchFolder scratch;
  const auto [process, benchmarks] =
      measure(scratch,
              "--benchmark_filter='^(sweep|statistics|gradient|exp)/.*/32768$' "
              "--benchmark_min_time=0.0001");
  EXPECT_EQ(process.exit_code, 0) << process.err;
  std::vector<std::string> expected{"exp/highway/f32/32768", "exp/plain/f32/32768"};
  for (const char* kernel : {"statistics", "gradient", "sweep"}) {
    for (const char* code : {"highway", "plain"}) {
      for (const char* dtype : {"f32", "bf16"}) {
        expected.push_back(std::string(kernel) + "/" + code + "/" + dtype + "/32768");
      }
    }
  }
  EXPECT_THAT(names_of(benchmarks), ::testing::UnorderedElementsAreArray(expected));
  for (const json& entry : benchmarks) {
    EXPECT_GT(entry.at("real_time").get<double>(), 0);
    EXPECT_GE(entry.at("max_bytes_used").get<std::int64_t>(), 2 * 4 * 32768) << entry;
  }
}

TEST(Gbench, ListsTheTrialsOfTheDefaultSuite) {
  const ScratchFolder scratch;
  const ProcessResult result = run_gbench(scratch, "--benchmark_list_tests");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("trial/small dtype=f32/fused/tp2cp1/forward/iterations:20"));
  EXPECT_THAT(result.out, HasSubstr("values/denormal/bf16/32768\n"));
  EXPECT_THAT(result.out, HasSubstr("all_reduce/threads/2/256/manual_time\n"));
}

TEST(Gbench, HelpNamesBothKindsOfFlags) {
  const ScratchFolder scratch;
  const ProcessResult result = run_gbench(scratch, "--help");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* text : {"--suite", "--case", "--impl", "--grid", "--iterations",
                           "--benchmark_filter=<regex>", "statistics, all_statistics"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

TEST(Gbench, FlagsThatMakeNoSenseGetOneLine) {
  const ScratchFolder scratch;
  struct Refused {
    const char* arguments;
    int exit_code;
    const char* message;
  };
  for (const Refused& refused :
       {Refused{"--cases x", 65, "--cases = x is not a folder"},
        Refused{"--iterations 1", 64, "--iterations"}, Refused{"--report r.json", 64, "--report"},
        Refused{"--suite smoke --case 'lens=4'", 64, "either --suite or --case"},
        Refused{"--benchmark_filters=x", 64, "unknown flag or value: --benchmark_filters=x"},
        Refused{"--benchmark_format=xml", 64, "rejects the value of a --benchmark_* flag"},
        Refused{"--case 'lens=4 vocab=x'", 65, "vocab"},
        Refused{"--suite smokes", 65, "did you mean 'smoke'"},
        Refused{"--case 'lens=4' --impl fussed", 65, "fussed"},
        Refused{"--case 'lens=4 vocab=8' --grid tp9", 65, "tp = 9"},
        Refused{"--case 'lens=4' --threads-per-rank 4000", 65, "4000 threads per rank"}}) {
    const ProcessResult result = run_gbench(scratch, refused.arguments);
    EXPECT_EQ(result.exit_code, refused.exit_code) << refused.arguments << result.out;
    EXPECT_THAT(result.err, HasSubstr(refused.message)) << refused.arguments;
    EXPECT_THAT(result.err, StartsWith("lossgrid_gbench: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace lossgrid
