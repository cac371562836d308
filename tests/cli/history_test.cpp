// SPDX-License-Identifier: Apache-2.0
// Test of `lossgrid history` on the report of a real run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

TEST(HistoryCommand, AppendsARunOnceAndShowsIt) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const std::string file = scratch.file("history.jsonl");
  run_lossgrid(scratch,
               "run --case 'lens=5+8 vocab=24' --impl fused,cp_local --grid tp1cp1 "
               "--report " +
                   report);
  const std::string append = "history append " + report + " --file " + file;
  const ProcessResult first = run_lossgrid(scratch, append);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, file + ": 2 lines added\n");
  const std::string written = read_all(file);
  EXPECT_EQ(run_lossgrid(scratch, append).out, file + ": has this run already\n");
  EXPECT_EQ(read_all(file), written);
  const ProcessResult shown = run_lossgrid(scratch, "history show --file " + file);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.out, "6 counters never changed\n");
  const ProcessResult json = run_lossgrid(scratch, "history show --format json --file " + file);
  EXPECT_THAT(json.out, HasSubstr("\"metric\": \"peak_bytes\""));

  const ProcessResult wrong = run_lossgrid(scratch, "history show --file " + report);
  EXPECT_EQ(wrong.exit_code, 65);
  EXPECT_EQ(wrong.err, "lossgrid: " + report + ": line 1: it is no JSON\n");
  EXPECT_EQ(run_lossgrid(scratch, "history show --file " + scratch.file("none")).exit_code, 65);
  EXPECT_EQ(run_lossgrid(scratch, "history append " + report).exit_code, 64);
  EXPECT_EQ(run_lossgrid(scratch, "history").exit_code, 64);
}

}  // namespace
}  // namespace lossgrid
