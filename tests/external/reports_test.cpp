// SPDX-License-Identifier: Apache-2.0
// Reports with trials and timings of loaded implementations, in compare, gate, history, validate,
// the page and all exports.
#include <numeric>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string kVersions = R"(
import time

VERSION = os.environ["MINE"]


@lossgrid.implementation
def mine(logits, batch):
    if VERSION == "more":
        dist.all_reduce(torch.zeros(3), group=batch.tp.group)
    if VERSION == "slow":
        time.sleep(0.05)
    if VERSION == "raises":
        raise ValueError("version")
    return right(logits, batch)
)";

class ExternalReports : public WithTorch {
 protected:
  /// Returns the report of `command` on a version of the function.
  std::string report_of(const std::string& command, const std::string& version,
                        const std::string& name, int exit_code = 0) const {
    const std::string report = scratch_.file(name);
    setenv("MINE", version.c_str(), 1);
    const ProcessResult result =
        run_loaded(command, {write_python("mine.py", kVersions)},
                   "--grid tp2cp1 --report " + report +
                       (command == "run" ? " --impl fused,mine --case 'lens=5+8 vocab=24'"
                                         : " --impl mine --case 'lens=64 vocab=512' "
                                           "--min-samples 2 --max-seconds 0.1"));
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return report;
  }

  static void set_times(int ns, ordered_json& measured) {
    std::vector<int> samples(12);
    std::iota(samples.begin(), samples.end(), ns);
    measured["samples_ns"] = samples;
    measured["median_ns"] = ns + 6;
    measured["p20_ns"] = ns + 2;
    measured["p80_ns"] = ns + 9;
    measured["stderr_ratio"] = 1e-6;
  }

  /// Writes a report as from an idle machine: all times are equal, except that forwards take
  /// `factor` times as long. Returns the path of the report.
  std::string with_times(const std::string& report, const std::string& name, int factor) const {
    constexpr int kTime = 100000;
    ordered_json whole = ordered_json::parse(read_all(report));
    for (ordered_json& timing : whole.at("timings")) {
      timing["status"] = "timed";
      for (ordered_json& ceiling : timing.at("ceilings")) set_times(kTime, ceiling);
      for (ordered_json& row : timing.at("rows")) {
        // A busy machine gives too few samples in its time.
        EXPECT_THAT(row.at("status"), AnyOf("timed", "unstable"));
        row["status"] = "timed";
        set_times(row.at("phase") == "forward" ? factor * kTime : kTime, row);
      }
    }
    write_all(scratch_.file(name), whole.dump());
    return scratch_.file(name);
  }

  ProcessResult lossgrid_of(const std::string& arguments) const {
    return run_lossgrid(scratch_, arguments);
  }
};

TEST_F(ExternalReports, AreComparedAndGated) {
  const std::string base = report_of("run", "base", "base.json.gz");
  const std::string more = report_of("run", "more", "more.json");
  const std::string raises = report_of("run", "raises", "raises.json", 14);
  const auto expect = [&](const std::string& head, int exit_code, const std::string& what) {
    for (const std::string command :
         {"compare {} {}", "gate {} {} --policy reports/policies/exact.json"}) {
      const ProcessResult result = lossgrid_of(fmt::format(fmt::runtime(command), base, head));
      EXPECT_EQ(result.exit_code, exit_code) << command << result.out << result.err;
      EXPECT_THAT(result.out, ContainsRegex(what));
    }
  };
  expect(base, 0, "0 (regressed|failed)");
  expect(more, 12, "forward tp: all_reduce.* 3 +4 ");
  expect(raises, 14, "error: rank . in forward: forward of 'mine': ValueError");

  const std::string history = scratch_.file("history.jsonl");
  for (const std::string& report : {base, more}) {
    ASSERT_EQ(lossgrid_of(fmt::format("history append {} --file {}", report, history)).exit_code,
              0);
  }
  const ProcessResult shown = lossgrid_of("history show --file " + history);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, ContainsRegex("calls\n +lens=5\\+8 vocab=24 +tp2cp1 +mine +2 +3 +4 "));

  for (const std::string& report : {base, more, raises}) {
    EXPECT_EQ(lossgrid_of("validate " + report).exit_code, 0) << report;
  }
  const std::string page = scratch_.file("page.html");
  EXPECT_EQ(lossgrid_of(fmt::format("html {} --out {}", raises, page)).exit_code, 0);
  EXPECT_THAT(read_all(page), HasSubstr("<title>lossgrid report</title>"));
  for (const char* format : {"github", "junit", "markdown"}) {
    const ProcessResult result = lossgrid_of(fmt::format("export {} --to {}", raises, format));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("mine"), HasSubstr("ValueError: version"))) << format;
  }
}

TEST_F(ExternalReports, TimesOfOneThatIsTimedAloneAreThoseOfItsFunction) {
  std::set<std::string> phases;
  for (const ordered_json& timing :
       records_of(report_of("bench", "slow", "slow.json"), "timings")) {
    for (const ordered_json& row : timing.at("rows")) {
      const std::string phase = row.at("phase");
      if (phase.starts_with("forward")) {
        EXPECT_GE(row.at("median_ns"), 50'000'000) << phase;
      }
      phases.insert(phase);
    }
  }
  EXPECT_EQ(phases, (std::set<std::string>{"forward", "backward", "forward_backward"}));
}

TEST_F(ExternalReports, TimesOfOneThatIsTimedAloneAreCompared) {
  const std::string measured = report_of("bench", "base", "measured.json");
  const std::string base = with_times(measured, "base.json", 1);
  const std::string slow = with_times(measured, "slow.json", 2);
  EXPECT_EQ(lossgrid_of(fmt::format("compare {} {}", base, base)).exit_code, 0);
  const ProcessResult worse = lossgrid_of(fmt::format("compare {} {}", base, slow));
  EXPECT_EQ(worse.exit_code, 11) << worse.out << worse.err;
  EXPECT_THAT(worse.out, ContainsRegex("regressed +time +time over copy .*[|]mine[|]forward\n"));
  std::istringstream exports(lossgrid_of("list exports").out);
  for (std::string line; std::getline(exports, line);) {
    const std::string format = line.substr(0, line.find(' '));
    if (format == "github") continue;  // annotations of problems only
    const ProcessResult result = lossgrid_of(fmt::format("export {} --to {}", base, format));
    EXPECT_EQ(result.exit_code, 0) << format << result.err;
    EXPECT_THAT(result.out, HasSubstr("mine")) << format;
  }
}

}  // namespace
}  // namespace lossgrid
