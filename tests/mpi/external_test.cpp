// SPDX-License-Identifier: Apache-2.0
// Implementations in Python under a launcher: verdicts, checks and bits are those of threads.
#include <gmock/gmock.h>

#include "external/python.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

/// Returns the part of a report that does not depend on the transport: without times and the
/// harness's own collectives.
ordered_json verdicts_of(const std::string& path) {
  ordered_json out;
  for (const ordered_json& trial : records_of(path, "trials")) {
    ordered_json kept;
    for (const char* key : {"id", "status", "reason", "checks", "invariants", "determinism",
                            "fingerprints", "communication", "memory", "metrics"}) {
      kept[key] = trial.at(key);
    }
    out.push_back(without_volatile_keys(kept));
  }
  return out;
}

const std::string kPadded = R"(
@lossgrid.implementation(sequence_multiple=16)
def padded(logits, batch):
    if (batch.cu_seqlens_padded % 16).any():
        raise ValueError(f"sequences at {batch.cu_seqlens_padded.tolist()}")
    return right(logits, batch)
)";

using ExternalLaunched = WithTorch;

TEST_F(ExternalLaunched, HasTheVerdictsAndBitsOfThreads) {
  const std::string arguments = fmt::format(
      "run --load '{0}cp_gather.py' --load '{0}wrong/max_not_reduced.py' --load '{1}' "
      "--python '{2}' --impl cp_gather,max_not_reduced,padded --grid tp2cp1,tp2cp2 "
      "--case 'lens=5+8+0+1 vocab=27 microbatches=2' --report ",
      kExamples, write_python("padded.py", kPadded), kPython);
  const std::string threads = scratch_.file("threads.json");
  const std::string processes = scratch_.file("processes.json");
  ASSERT_EQ(run_lossgrid(scratch_, arguments + threads).exit_code, 10);
  const ProcessResult result =
      run_executable(scratch_, LOSSGRID_MPIEXEC,
                     fmt::format("{} 4 '{}' {}", LOSSGRID_MPIEXEC_NUMPROC_FLAG, LOSSGRID_EXECUTABLE,
                                 arguments + processes));
  ASSERT_EQ(result.exit_code, 10) << result.out << result.err;
  for (const ordered_json& trial : records_of(processes, "trials")) {
    EXPECT_EQ(trial["transport"], "mpi");
  }
  const ordered_json wanted = verdicts_of(threads);
  ASSERT_EQ(wanted.size(), 6u);
  EXPECT_EQ(wanted[0]["status"], "passed");
  EXPECT_EQ(wanted[3]["status"], "failed");
  EXPECT_EQ(wanted[5]["status"], "passed") << wanted[5]["reason"];
  EXPECT_EQ(verdicts_of(processes), wanted);
}

}  // namespace
}  // namespace lossgrid
