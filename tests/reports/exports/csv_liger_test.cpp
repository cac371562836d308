// SPDX-License-Identifier: Apache-2.0
// The text of a run, and Python's csv and json as the visualizer of Liger-Kernel uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "shell.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;

constexpr const char* kExpected =
    R"csv(kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp,liger_version
lossgrid_nll,fused:chunk_tokens=7,full,speed,ms,BT,B x T,64,2,1.995,2.006,"{""case"":""lens=64 vocab=512"",""grid"":""tp2cp1"",""cache"":""hot""}",a model,2026-01-02 03:04:05,lossgrid 0.1.0
lossgrid_nll,fused,full,memory,MB,BT,B x T,13,0.005859375,0.005859375,0.005859375,"{""case"":""vocab=96 lens=5+8"",""grid"":""tp1cp1""}",a model,2026-01-02 03:04:05,lossgrid 0.1.0
)csv";

TEST(CsvLiger, TheTimeOfWhatIsTimedAndTheMemoryOfWhatPassed) {
  EXPECT_EQ(exported("csv-liger", bench_run()), kExpected);
}

TEST(CsvLiger, TheObjectiveNamesTheKernel) {
  RunRecord run = sample_bench_run();
  run.timings[0].case_text = "objective=dpo lens=4+4";
  EXPECT_THAT(exported("csv-liger", run), HasSubstr("\nlossgrid_dpo,per_sequence,forward,speed,"));
}

TEST(CsvLiger, PythonReadsEveryRow) {
  const TemporaryFolder folder;
  const std::string path = folder.file("r.csv");
  const std::string command =
      "python3 -c \"import csv, json; rows = list(csv.DictReader(open('" + path +
      "', newline=''))); "
      "[(float(r['x_value']), float(r['y_value_50']), json.loads(r['extra_benchmark_config_str'])) "
      "for r in rows]; assert all(None not in r and None not in r.values() for r in rows); "
      "print(len(rows), [r['kernel_provider'] for r in rows])\"";
  for (const auto& [what, run] : export_runs()) {
    write_file_atomically(path, exported("csv-liger", run));
    const ShellOutcome outcome = run_shell(command);
    EXPECT_EQ(outcome.exit_code, 0) << what << ": " << outcome.output;
    if (what == "markup") {
      EXPECT_EQ(outcome.output, "1 ['`x`::%,\\n::error::y\\\\']\n");
    }
  }
}

}  // namespace
}  // namespace lossgrid
