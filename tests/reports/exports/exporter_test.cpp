// SPDX-License-Identifier: Apache-2.0
// Tests that every exporter has to pass.
#include "reports/exports/exporter.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "reports/exports/export_parts.h"
#include "reports/file/compact_report.h"
#include "reports/file/report_reader.h"
#include "reports/file/report_writer.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;

TEST(Exporters, AreFoundByNameAndTheNearestIsNamed) {
  std::vector<std::string> names;
  for (const Exporter* exporter : exporters()) {
    names.push_back(exporter->name);
    EXPECT_EQ(&find_exporter(exporter->name), exporter);
  }
  EXPECT_THAT(names, testing::Contains("junit"));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  const auto message = [](const std::string& name) -> std::string {
    try {
      find_exporter(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("junitt"), "unknown format 'junitt'; did you mean 'junit'?");
  EXPECT_THAT(message("spreadsheet"), HasSubstr("known: "));
}

/// `lossgrid list exports` has a line for each, and its file is named after it.
TEST(Exporters, HaveOneFileAndOneLineEach) {
  for (const Exporter* exporter : exporters()) {
    EXPECT_THAT(exporter->name, testing::MatchesRegex("[a-z]+(-[a-z]+)*"));
    EXPECT_NE(exporter->summary, "");
    EXPECT_LE(exporter->summary.size(), 96u) << exporter->name;
    EXPECT_EQ(escape_controls(exporter->summary), exporter->summary) << exporter->name;
    std::string file = exporter->name + ".cpp";
    std::replace(file.begin(), file.end(), '-', '_');
    EXPECT_THAT(read_text_file(LOSSGRID_SOURCE_DIR "/reports/exports/formats/" + file),
                HasSubstr("// Exporter \"" + exporter->name + "\""));
  }
}

/// A format has trials, timings or failures; which of them is its own affair.
TEST(Exporters, NameAnImplementationOfSomeRun) {
  const std::map<std::string, RunRecord> runs = export_runs();
  for (const Exporter* exporter : exporters()) {
    EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [&](const auto& run) {
      return exporter->text(run.second).find("fused") != std::string::npos;
    })) << exporter->name;
    EXPECT_THAT(exporter->text(RunRecord()), testing::Not(HasSubstr("fused"))) << exporter->name;
  }
}

TEST(Exporters, WriteTheSameTwice) {
  for (const auto& [what, run] : export_runs()) {
    for (const Exporter* exporter : exporters()) {
      EXPECT_EQ(exporter->text(run), exporter->text(run)) << exporter->name << " of " << what;
    }
  }
}

/// An exporter may use nothing that is not in the stored report.
TEST(Exporters, WriteTheSameForAStoredReport) {
  const TemporaryFolder folder;
  for (const auto& [what, run] : export_runs()) {
    if (run.environment.is_null()) continue;  // no report
    write_file_atomically(folder.file("r.json"), report_text(compact_report(run)));
    RunRecord stored = read_report(folder.file("r.json"));
    EXPECT_EQ(stored.begun_id, "");
    stored.begun_id = run.begun_id;  // only in partial files
    for (const Exporter* exporter : exporters()) {
      const std::string text = exporter->text(run);
      EXPECT_EQ(exporter->text(stored), text) << exporter->name << " of " << what;
      EXPECT_TRUE(text.ends_with('\n')) << exporter->name << " of " << what;
    }
  }
}

TEST(Exporters, TakeAnEmptyRunAndAPartialFile) {
  const TemporaryFolder folder;
  {
    ReportWriter writer(folder.file("r.json"), cut_off_run());
    writer.add(cut_off_run().trials[0]);
    writer.begin(cut_off_run().begun_id, cut_off_run().begun_reproduce);
  }
  const RunRecord partial = read_report(folder.file("r.json"));
  EXPECT_EQ(partial.begun_id, cut_off_run().begun_id);
  EXPECT_EQ(partial.begun_reproduce, cut_off_run().begun_reproduce);
  EXPECT_EQ(partial.planned->trials, 8);
  EXPECT_EQ(partial.planned->timings, 2);
  for (const Exporter* exporter : exporters()) {
    EXPECT_EQ(exporter->text(partial), exporter->text(cut_off_run())) << exporter->name;
    EXPECT_TRUE(exporter->text(RunRecord()).ends_with('\n')) << exporter->name;
  }
}

/// Any format has whole characters, and no control characters that a terminal obeys.
TEST(Exporters, WriteNoControlCharacters) {
  for (const Exporter* exporter : exporters()) {
    const std::string text = exporter->text(hostile_run());
    if (text[0] == '{' || text[0] == '[') {
      EXPECT_TRUE(nlohmann::json::accept(text)) << exporter->name;
    } else {
      EXPECT_EQ(escape_controls(text, "\n"), text) << exporter->name;
    }
  }
}

TEST(Verdict, IsThatOfTheRun) {
  EXPECT_EQ(verdict_line(RunRecord()), "passed: 0 passed");
  EXPECT_EQ(verdict_line(small_run()),
            "failed (correctness, exit code 10): 1 passed, 1 failed, 1 skipped, 1 crashed");
  EXPECT_EQ(verdict_line(cut_off_run()),
            "incomplete (ended in the middle of vocab=96 lens=5+8|tp2cp1|fused|cpu): 1 passed");
  RunRecord hang = cut_off_run();
  hang.begun_id.clear();
  hang.exit_code = 15;
  EXPECT_EQ(verdict_line(hang), "incomplete (ended in the middle, exit code 15): 1 passed");
  RunRecord bench = sample_bench_run();
  bench.exit_code = 0;
  EXPECT_EQ(verdict_line(bench), "passed: timings: 1 timed");
  EXPECT_EQ(
      verdict_line(sample_mutants_run()),
      "failed (correctness, exit code 10): 3 of 3 mutants rejected, 1 of 1 controls accepted");
  EXPECT_TRUE(is_good(bench));
  EXPECT_FALSE(is_good(cut_off_run()));
}

TEST(UniqueNames, NumberWhatComesAgain) {
  UniqueNames unique;
  EXPECT_EQ(unique("a"), "a");
  EXPECT_EQ(unique("a #2"), "a #2");
  EXPECT_EQ(unique("a"), "a #2 #2");
  EXPECT_EQ(unique("a"), "a #3");
}

}  // namespace
}  // namespace lossgrid
