// SPDX-License-Identifier: Apache-2.0
// Tests of "openmetrics": the text of a small run, and on every run the parser of Prometheus'
// Python client and promtool, which reads the older Prometheus text format as the textfile
// collector and Pushgateway do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "shell.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kExpectedOpenmetrics = R"text(# TYPE lossgrid_build_info gauge
# HELP lossgrid_build_info Version and revision of lossgrid, and the suite; always 1.
lossgrid_build_info{version="0.1.0",git_revision="abc1234",suite="smoke"} 1
# TYPE lossgrid_run_complete gauge
# HELP lossgrid_run_complete 1 when the run ended.
lossgrid_run_complete 1
# TYPE lossgrid_run_exit_code gauge
# HELP lossgrid_run_exit_code Exit code of the run.
lossgrid_run_exit_code 10
# TYPE lossgrid_trials gauge
# HELP lossgrid_trials Trials by status.
lossgrid_trials{status="crashed"} 1
lossgrid_trials{status="error"} 0
lossgrid_trials{status="failed"} 1
lossgrid_trials{status="not_run"} 0
lossgrid_trials{status="out_of_memory"} 0
lossgrid_trials{status="passed"} 1
lossgrid_trials{status="skipped"} 1
lossgrid_trials{status="timeout"} 0
# TYPE lossgrid_trial_passed gauge
# HELP lossgrid_trial_passed 1 when the trial passed, 0 when it did not.
lossgrid_trial_passed{case="vocab=96 lens=5+8",grid="tp2cp1",implementation="fused"} 1
lossgrid_trial_passed{case="vocab=96 lens=5+8",grid="tp2cp4",implementation="fused"} 0
lossgrid_trial_passed{case="vocab=96 lens=5+8",grid="tp2cp1",implementation="fused #2"} 0
# TYPE lossgrid_trial_error_ratio gauge
# UNIT lossgrid_trial_error_ratio ratio
# HELP lossgrid_trial_error_ratio Largest error / bound of the checks.
lossgrid_trial_error_ratio{case="vocab=96 lens=5+8",grid="tp2cp1",implementation="fused"} 0.25
lossgrid_trial_error_ratio{case="vocab=96 lens=5+8",grid="tp2cp4",implementation="fused"} 12345
# TYPE lossgrid_trial_peak_bytes gauge
# UNIT lossgrid_trial_peak_bytes bytes
# HELP lossgrid_trial_peak_bytes Peak memory of a rank without inputs.
lossgrid_trial_peak_bytes{case="vocab=96 lens=5+8",grid="tp2cp1",implementation="fused"} 4096
lossgrid_trial_peak_bytes{case="vocab=96 lens=5+8",grid="tp2cp4",implementation="fused"} 4096
# TYPE lossgrid_trial_payload_bytes gauge
# UNIT lossgrid_trial_payload_bytes bytes
# HELP lossgrid_trial_payload_bytes Payload of the collectives of a rank.
lossgrid_trial_payload_bytes{case="vocab=96 lens=5+8",grid="tp2cp1",implementation="fused"} 184
lossgrid_trial_payload_bytes{case="vocab=96 lens=5+8",grid="tp2cp4",implementation="fused"} 268
# TYPE lossgrid_trial_collective_calls gauge
# HELP lossgrid_trial_collective_calls Collectives that a rank calls.
lossgrid_trial_collective_calls{case="vocab=96 lens=5+8",grid="tp2cp1",implementation="fused"} 4
lossgrid_trial_collective_calls{case="vocab=96 lens=5+8",grid="tp2cp4",implementation="fused"} 4
# EOF
)text";

TEST(OpenMetrics, HoldsASmallRun) {
  EXPECT_EQ(exported("openmetrics", small_run()), kExpectedOpenmetrics);
}

TEST(OpenMetrics, HoldsTimesOfTimedRowsInSeconds) {
  const std::string text = exported("openmetrics", bench_run());
  const std::string labels =
      R"({case="lens=64 vocab=512",grid="tp2cp1",cache="hot",phase="forward_backward",)"
      R"(implementation="fused:chunk_tokens=7"} )";
  EXPECT_THAT(text, HasSubstr("# TYPE lossgrid_timing_median_seconds gauge\n"
                              "# UNIT lossgrid_timing_median_seconds seconds\n"
                              "# HELP lossgrid_timing_median_seconds Median over rounds of the "
                              "slowest rank.\n"
                              "lossgrid_timing_median_seconds" +
                              labels + "0.002\n# TYPE"));
  EXPECT_THAT(text, HasSubstr("lossgrid_timing_p20_seconds" + labels + "0.001995\n"));
  EXPECT_THAT(text, HasSubstr("lossgrid_timing_p80_seconds" + labels + "0.002006\n"));
  EXPECT_THAT(text, HasSubstr("lossgrid_timing_speedup_ratio" + labels + "2\n"));
  EXPECT_THAT(text, HasSubstr("lossgrid_timing_ceiling_ratio" + labels + "0.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("per_sequence")));
}

TEST(OpenMetrics, CountsMutantsByVerdict) {
  RunRecord run = sample_mutants_run();
  run.mutants[0].rejected = false;
  EXPECT_THAT(exported("openmetrics", run),
              HasSubstr("lossgrid_mutants{kind=\"mutant\",verdict=\"rejected\"} 2\n"
                        "lossgrid_mutants{kind=\"mutant\",verdict=\"not_rejected\"} 1\n"
                        "lossgrid_mutants{kind=\"control\",verdict=\"accepted\"} 1\n"
                        "lossgrid_mutants{kind=\"control\",verdict=\"not_accepted\"} 0\n"));
}

TEST(OpenMetrics, PromtoolHasNothingAgainstAnyRun) {
  if (!shell_has("promtool --version")) GTEST_SKIP() << "no promtool (prometheus)";
  const TemporaryFolder folder;
  const std::string path = folder.file("r.prom");
  const auto check = [&](const std::string& text) {
    write_file_atomically(path, text);
    return run_shell("promtool check metrics <" + path);
  };
  std::map<std::string, RunRecord> runs = export_runs();
  runs["hostile"] = hostile_run();
  for (const auto& [what, run] : runs) {
    const ShellOutcome outcome = check(exported("openmetrics", run));
    EXPECT_EQ(outcome.exit_code, 0) << what;
    EXPECT_EQ(outcome.output, "") << what;
  }
  std::string text = exported("openmetrics", small_run());
  const std::string type = "lossgrid_build_info gauge";
  text.replace(text.find(type), type.size(), "lossgrid_build info");
  EXPECT_NE(check(text).exit_code, 0);
}

TEST(OpenMetrics, TheClientOfPrometheusReadsEveryRun) {
  if (!shell_has("/usr/bin/python3 -c 'import prometheus_client'")) {
    GTEST_SKIP() << "no prometheus_client (python3-prometheus-client)";
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("r.prom");
  const std::string command =
      "/usr/bin/python3 -c \"from prometheus_client.openmetrics.parser import "
      "text_string_to_metric_families as parse; families = list(parse(open('" +
      path +
      "', newline='').read())); samples = [(s.name, tuple(s.labels.items())) for f in families for "
      "s in f.samples]; assert len(samples) == len(set(samples)); "
      "print([s.labels['implementation'] "
      "for f in families if f.name == 'lossgrid_trial_passed' for s in f.samples])\"";
  std::map<std::string, RunRecord> runs = export_runs();
  runs["hostile"] = hostile_run();
  for (const auto& [what, run] : runs) {
    write_file_atomically(path, exported("openmetrics", run));
    const ShellOutcome outcome = run_shell(command);
    EXPECT_EQ(outcome.exit_code, 0) << what << ": " << outcome.output;
    if (what == "markup") {  // escapes read back
      EXPECT_THAT(outcome.output, HasSubstr(R"('`x`::%,\n::error::y\\', )"));
    }
  }
  write_file_atomically(path, "lossgrid_trials 1\n");
  EXPECT_NE(run_shell(command).exit_code, 0);  // no end
}

}  // namespace
}  // namespace lossgrid
