// SPDX-License-Identifier: Apache-2.0
// lossgrid plan and list models as a user sees them: output, files, exit codes, and one line for
// each refusal.
#include <algorithm>
#include <cstdlib>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json plan_json(const ScratchFolder& scratch, const std::string& arguments, int exit_code = 0) {
  const std::string path = scratch.file("new/plan.json");
  const ProcessResult result = run_lossgrid(scratch, "plan " + arguments + " --json " + path);
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("plan: " + path));
  return json::parse(read_all(path));
}

TEST(Plan, PrintsARowForEveryGridAndImplementation) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch, "plan --case 'lens=131072 vocab=151936 dtype=bf16' --grid tp1cp1,tp2cp4");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("nothing ran"));
  EXPECT_THAT(result.out, HasSubstr("lens=131072 vocab=151936 dtype=bf16\n"));
  for (const char* name : {"reference", "per_sequence", "fused", "cp_gather_logits", "cp_local"}) {
    for (const char* grid : {"tp1cp1", "tp2cp4"}) {
      EXPECT_THAT(result.out, testing::ContainsRegex(std::string("\n +") + name + " +" + grid))
          << result.out;
    }
  }
  EXPECT_THAT(result.out, HasSubstr("37.1 GiB"));
  EXPECT_THAT(result.out, Not(HasSubstr("skipped")));
}

TEST(Plan, WritesPhasesAndCollectives) {
  const ScratchFolder scratch;
  const json plan = plan_json(
      scratch,
      "--case 'lens=5+8 vocab=24 mask=all statistics=false' --grid tp2cp2 --impl cp_local");
  EXPECT_EQ(plan["schema"], "lossgrid.plan/1");
  EXPECT_EQ(plan["limit_bytes"], nullptr);
  ASSERT_EQ(plan["plans"].size(), 1u);
  EXPECT_EQ(plan["plans"][0]["grid"], "tp2cp2");
  const json& row = plan["plans"][0]["rows"][0];
  EXPECT_EQ(row["implementation"], "cp_local");
  EXPECT_EQ(row["padded_tokens"], 16);
  EXPECT_EQ(row["inputs_bytes"], 8 * 12 * 4);
  ASSERT_EQ(row["phases"].size(), 3u);
  EXPECT_EQ(row["phases"][2]["phase"], "backward");
  EXPECT_EQ(row["peak_bytes"], row["phases"][2]["peak_bytes"]);
  EXPECT_EQ(row["collectives"][0], (json{{"phase", "forward"},
                                         {"group", "tp"},
                                         {"ranks", 2},
                                         {"operation", "all_gather"},
                                         {"calls", 1},
                                         {"payload_bytes", 96},
                                         {"wire_bytes", 96}}));
}

TEST(Plan, AModelGivesVocabAndHiddenAndNothingElse) {
  const ScratchFolder scratch;
  const json plan = plan_json(
      scratch, "--case 'lens=[4096,8192] dtype=bf16' --model Moonlight-16B-A3B --grid tp4sp");
  ASSERT_EQ(plan["plans"].size(), 2u);
  EXPECT_EQ(plan["plans"][0]["case"], "lens=4096 vocab=163840 hidden=2048 dtype=bf16");
  ASSERT_EQ(plan["plans"][0]["rows"].size(), 4u);
  for (const json& row : plan["plans"][0]["rows"]) {
    // A fourth of the rows and of the vocabulary, in bf16.
    EXPECT_EQ(row["inputs_bytes"], 2 * 2048 * (4096 / 4 + 163840 / 4)) << row;
  }
}

TEST(Plan, TakesTheCasesOfASuite) {
  const ScratchFolder scratch;
  const json plan = plan_json(scratch, "--suite perf_gpu");
  ASSERT_EQ(plan["plans"].size(), 9u);
  const auto planned = [&](std::size_t number) {
    std::vector<std::string> names;
    for (const json& row : plan["plans"][number]["rows"]) {
      if (!row.contains("skipped")) names.push_back(row["implementation"]);
    }
    return names;
  };
  using testing::ElementsAre;
  EXPECT_THAT(planned(0),
              ElementsAre("per_sequence", "fused", "one_sweep", "one_sweep:in_place=true"));
  EXPECT_THAT(planned(6), ElementsAre("linear_ce", "linear_ce_onepass"));
  EXPECT_EQ(plan["plans"][0]["rows"][1]["inputs_bytes"], std::int64_t{8192} * 131072 * 2);
  const json other = plan_json(scratch, "--suite perf_gpu --grid tp2cp1 --impl cp_local");
  EXPECT_EQ(other["plans"][0]["grid"], "tp2cp1");
  EXPECT_EQ(other["plans"][0]["rows"][0]["inputs_bytes"], std::int64_t{8192} * 131072);
}

TEST(Plan, FindsTheLargestSizeThatFits) {
  const ScratchFolder scratch;
  const json plan =
      plan_json(scratch, "--case 'lens=1 vocab=151936 dtype=bf16' --impl fused --fit 80GiB");
  EXPECT_EQ(plan["limit_bytes"], 80 * (std::int64_t{1} << 30));
  const json& row = plan["plans"][0]["rows"][0];
  EXPECT_EQ(row["fit"]["key"], "lens");
  EXPECT_EQ(row["fit"]["at_least"], false);
  EXPECT_LE(row["peak_bytes"], plan["limit_bytes"]);
  // Logits and their gradient in bf16 take nearly everything.
  const double logits = static_cast<double>(80 * (std::int64_t{1} << 30)) / (4.0 * 151936);
  EXPECT_LT(row["fit"]["value"], logits);
  EXPECT_GT(row["fit"]["value"], 0.999 * logits);

  const ProcessResult table =
      run_lossgrid(scratch, "plan --case 'seq_len=64 vocab=96' --impl fused --fit 1MB --vary seqs");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, testing::ContainsRegex("seqs = [0-9]+\n"));
}

TEST(Plan, TakesUnitsOfALimit) {
  const ScratchFolder scratch;
  const std::vector<std::pair<std::string, std::int64_t>> limits{
      {"1000000", 1'000'000}, {"1000000B", 1'000'000}, {"80GB", 80'000'000'000},
      {"512MB", 512'000'000}, {"512MiB", 512ll << 20}, {"700KiB", 700 << 10},
      {"700KB", 700'000},     {"2TiB", 2ll << 40},     {"2TB", 2'000'000'000'000}};
  for (const auto& [text, bytes] : limits) {
    const json plan = plan_json(scratch, "--case 'lens=1 vocab=96' --impl cp_local --fit " + text);
    EXPECT_EQ(plan["limit_bytes"], bytes) << text;
  }
}

TEST(Plan, NothingPlannedIs77) {
  const ScratchFolder scratch;
  const json plan = plan_json(scratch, "--case 'lens=8 vocab=24 hidden=8' --impl fused", 77);
  EXPECT_EQ(plan["plans"][0]["rows"][0]["skipped"],
            "takes logits; the case starts from hidden states");
  const ProcessResult none =
      run_lossgrid(scratch, "plan --case 'lens=8 vocab=24' --impl fused --fit 100");
  EXPECT_EQ(none.exit_code, 77);
  EXPECT_THAT(none.out, HasSubstr("skipped: fused tp1cp1 lens=8 vocab=24: lens = 1 needs"));
  // One of two files is enough.
  const ProcessResult one =
      run_lossgrid(scratch, "plan --case 'lens=8 vocab=24' --impl fused,linear_ce");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_THAT(one.out, HasSubstr("linear_ce tp1cp1 lens=8 vocab=24: takes hidden states"));
}

TEST(Models, AreListedWithTheirSource) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "list models");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5);
  EXPECT_THAT(result.out, HasSubstr("https://huggingface.co/Qwen/Qwen3-30B-A3B/"));
  EXPECT_THAT(result.out, testing::ContainsRegex("gpt-oss-20b +hidden=2880 +vocab=201088"));
  // The file is in the folder of suites but is no suite.
  const ProcessResult suites = run_lossgrid(scratch, "list suites");
  EXPECT_EQ(suites.exit_code, 0) << suites.err;
  EXPECT_THAT(suites.out, Not(HasSubstr("\nmodels")));
}

struct Refused {
  const char* arguments;
  int exit_code;
  const char* message;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.arguments;
}

class RefusedPlans : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedPlans, OneLineAndTheRightCode) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, std::string("plan ") + GetParam().arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedPlans,
    ::testing::Values(
        Refused{"", 64, "plan needs either --suite or --case"},
        Refused{"--suite ci --case lens=8", 64, "plan needs either --suite or --case"},
        Refused{"--suite perf_cpu", 65, "did you mean 'perf_gpu'"},
        Refused{"--case lens=8 --vary seqs", 64, "--vary needs --fit"},
        Refused{"--case lens=8 --fit 1GiB --vary vocab", 64, "vary"},
        Refused{"--case lens=8 --fit GiB", 65, "--fit = 'GiB' is no number of bytes"},
        Refused{"--case lens=8 --fit 1.5GiB", 65, "--fit = '1.5GiB' is no number of bytes"},
        Refused{"--case lens=8 --fit 80gib", 65, "--fit = '80gib' is no number of bytes"},
        Refused{"--case lens=8 --fit=-1", 65, "--fit = '-1' is no number of bytes"},
        Refused{"--case lens=8 --fit 0", 65, "--fit = 0 is outside"},
        Refused{"--case lens=8 --fit 9999999TiB", 65, "exceeds 2^62"},
        Refused{"--case lens=8 --fit 99999999999999999999", 65, "does not fit 64 bits"},
        Refused{"--case lens=8+9 --fit 1GiB", 65, "lens = 8+9 gives several lengths"},
        Refused{"--case lens=8 --fit 1GiB --vary seqs", 65, "lens = 8 gives the sequences"},
        Refused{"--case 'lens=4 mask=0110' --fit 1GiB", 65, "mask = 0110 has bits"},
        Refused{"--case 'lens=4 mask=011'", 65, "has 3 bits"},
        Refused{"--case lens=8 --impl fusd", 65, "did you mean 'fused'"},
        Refused{"--case lens=8 --grid tp0", 65, "tp"},
        Refused{"--case 'lens=8 vocab=4' --grid tp8", 65, "exceeds the vocabulary"},
        Refused{"--case 'lens=8 temperature=0'", 65, "temperature"},
        Refused{"--case 'lens=2147483647 vocab=2147483647'", 65, "exceeds 2^62"},
        Refused{"--case lens=8 --model Qwen3-30B-A4B", 65, "did you mean 'Qwen3-30B-A3B'"},
        Refused{"--case lens=8 --json /proc/nowhere/x.json", 65, "/proc/nowhere"}));

TEST(Models, ABrokenFileIsNamed) {
  const ScratchFolder scratch;
  const auto list = [&](const std::string& text) {
    write_all(scratch.file("models.json"), text);
    return run_lossgrid(scratch, "list models").err;
  };
  ::setenv("LOSSGRID_CASES_DIR", scratch.path().c_str(), 1);
  EXPECT_THAT(list("{"), HasSubstr("models.json: not JSON"));
  EXPECT_THAT(list("{\"models\": 2, \"entries\": []}"), HasSubstr("not models of version 1"));
  EXPECT_THAT(list("{\"models\": 1, \"entries\": [{\"name\": \"a\", \"hidden\": 0}]}"),
              HasSubstr("entries[0]: hidden is not a whole number"));
  EXPECT_THAT(list("{\"models\": 1, \"entries\": [{\"name\": 3}]}"),
              HasSubstr("entries[0]: name is not a text"));
  ::unsetenv("LOSSGRID_CASES_DIR");
}

}  // namespace
}  // namespace lossgrid
