// SPDX-License-Identifier: Apache-2.0
// Tests of "csv-liger": the text of a run, Python's csv and json on every run, and the charts of
// Liger-Kernel's visualizer: rows of one kernel, metric, mode and extra_benchmark_config_str.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "shell.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;

constexpr const char* kExpectedCsvLiger =
    R"csv(kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp,liger_version
lossgrid_nll,fused:chunk_tokens=7,full,speed,ms,BT,B x T,64,2,1.995,2.006,"{""seqs"":""1"",""vocab"":""512"",""grid"":""tp2cp1"",""cache"":""hot""}",a model,2026-01-02 03:04:05,lossgrid 0.1.0
lossgrid_nll,fused,full,memory,MB,BT,B x T,13,0.005859375,0.005859375,0.005859375,"{""vocab"":""96"",""seqs"":""2"",""grid"":""tp1cp1""}",a model,2026-01-02 03:04:05,lossgrid 0.1.0
)csv";

TEST(CsvLiger, HoldsTimesOfTimedRowsAndMemoryOfPassedTrials) {
  EXPECT_EQ(exported("csv-liger", bench_run()), kExpectedCsvLiger);
}

TEST(CsvLiger, TheObjectiveNamesTheKernel) {
  RunRecord run = sample_bench_run();
  run.timings[0].case_text = "objective=dpo lens=4+4";
  EXPECT_THAT(exported("csv-liger", run), HasSubstr("\nlossgrid_dpo,per_sequence,forward,speed,"));
}

/// Returns timings and trials of each case at each of three lengths.
RunRecord sweep_run(const std::vector<std::string>& cases) {
  RunRecord run = sample_bench_run();
  const TimingRecord timing = run.timings[0];
  run.timings.clear();
  for (const std::string& begin : cases) {
    for (const int length : {64, 128, 256}) {
      TimingRecord& timed = run.timings.emplace_back(timing);
      timed.case_text = begin + std::to_string(length);
      timed.tokens = length;
      for (TimingRow& row : timed.rows) row.time.median_ns += 1000 * length;
      TrialRecord& trial = run.trials.emplace_back(sample_trial(2, 1, "fused"));
      trial.id = timed.case_text + "|tp2cp1|fused|cpu";
      trial.tokens = length;
    }
  }
  return run;
}

/// Reads the charts in the order of the file: the config, and the points of each provider's curve.
ShellOutcome charts_of(const RunRecord& run, const std::string& metric) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("r.csv"), exported("csv-liger", run));
  write_file_atomically(folder.file("charts.py"), R"py(
import csv, json, sys
charts = {}
for row in csv.DictReader(open(sys.argv[1], newline="")):
    chart = tuple(row[key] for key in ("kernel_name", "metric_name", "kernel_operation_mode",
                                       "extra_benchmark_config_str"))
    curve = charts.setdefault(chart, {}).setdefault(row["kernel_provider"], [])
    curve.append((float(row["x_value"]), float(row["y_value_50"])))
for (kernel, metric, mode, config), curves in charts.items():
    if metric == sys.argv[2] and mode == "full":
        print(kernel, " ".join(f"{k}={v}" for k, v in json.loads(config).items()))
        for provider, points in curves.items():
            assert len(points) == len({x for x, y in points})
            print(" ", provider, *(f"{x:g}:{y:g}" for x, y in points))
)py");
  return run_shell("/usr/bin/python3 " + folder.file("charts.py") + " " + folder.file("r.csv") +
                   " " + metric);
}

TEST(CsvLiger, CasesThatDifferInLengthAreOneCurve) {
  const RunRecord run = sweep_run({"vocab=96 lens=", "vocab=512 lens=8+"});
  EXPECT_EQ(charts_of(run, "speed").output,
            "lossgrid_nll vocab=96 seqs=1 grid=tp2cp1 cache=hot\n"
            "  per_sequence 64:4.064 128:4.128 256:4.256\n"
            "  fused:chunk_tokens=7 64:2.064 128:2.128 256:2.256\n"
            "lossgrid_nll vocab=512 seqs=2 grid=tp2cp1 cache=hot\n"
            "  per_sequence 64:4.064 128:4.128 256:4.256\n"
            "  fused:chunk_tokens=7 64:2.064 128:2.128 256:2.256\n");
  EXPECT_EQ(charts_of(run, "memory").output,
            "lossgrid_nll vocab=96 seqs=1 grid=tp2cp1\n"
            "  fused 64:0.0078125 128:0.0078125 256:0.0078125\n"
            "lossgrid_nll vocab=512 seqs=2 grid=tp2cp1\n"
            "  fused 64:0.0078125 128:0.0078125 256:0.0078125\n");
}

TEST(CsvLiger, LengthsOfADistributionAreOneCurve) {
  EXPECT_EQ(charts_of(sweep_run({"objective=dpo lens=uniform seqs=8 seq_len="}), "memory").output,
            "lossgrid_dpo lens=uniform seqs=8 grid=tp2cp1\n"
            "  fused 64:0.0078125 128:0.0078125 256:0.0078125\n");
}

TEST(CsvLiger, PythonReadsEveryRow) {
  const TemporaryFolder folder;
  const std::string path = folder.file("r.csv");
  const std::string command =
      "/usr/bin/python3 -c \"import csv, json; rows = list(csv.DictReader(open('" + path +
      "', newline=''))); "
      "[(float(r['x_value']), float(r['y_value_50']), json.loads(r['extra_benchmark_config_str'])) "
      "for r in rows]; assert all(None not in r and None not in r.values() for r in rows); "
      "print(len(rows), [r['kernel_provider'] for r in rows])\"";
  for (const auto& [what, run] : export_runs()) {
    write_file_atomically(path, exported("csv-liger", run));
    const ShellOutcome outcome = run_shell(command);
    EXPECT_EQ(outcome.exit_code, 0) << what << ": " << outcome.output;
    if (what == "markup") {
      EXPECT_EQ(outcome.output, "1 ['`x`::%,\\\\n::error::y\\\\']\n");
    }
  }
  write_file_atomically(path, exported("csv-liger", hostile_run()));
  EXPECT_THAT(run_shell(command).output, testing::StartsWith("4 ['a"));
}

}  // namespace
}  // namespace lossgrid
