// SPDX-License-Identifier: Apache-2.0
// Tests of "junit": the text of a small run, and xmllint with two schemas on every run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "reports/text/text_table.h"
#include "shell.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kExpectedJunit = R"xml(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="lossgrid" tests="5" failures="1" errors="1" time="0.007">
  <testsuite name="run" tests="1" failures="0" errors="0" time="0.000" skipped="0" timestamp="2026-01-02T03:04:05">
    <properties>
      <property name="command" value="lossgrid run --suite smoke"/>
      <property name="suite" value="smoke"/>
      <property name="exit_code" value="10"/>
      <property name="version" value="0.1.0"/>
      <property name="git_revision" value="abc1234"/>
      <property name="cpu_model" value="a model"/>
    </properties>
    <testcase classname="lossgrid.run" name="complete" time="0.000"/>
  </testsuite>
  <testsuite name="C0: vocab=96 lens=5+8" tests="4" failures="1" errors="1" time="0.007" skipped="1" timestamp="2026-01-02T03:04:05">
    <testcase classname="vocab=96 lens=5+8.fused" name="tp2cp1 cpu" time="0.004"/>
    <testcase classname="vocab=96 lens=5+8.fused" name="tp2cp4 cpu" time="0.004">
      <failure type="failed" message="grad_logits: ratio 1.2e+04">failed: vocab=96 lens=5+8|tp2cp4|fused|cpu
  case: C0
  reason: grad_logits: ratio 1.2e+04
  explanation: grad_logits is 2.000 x the truth, which tp = 2 would explain
  worst check: grad_logits, ratio 1.23e+04, 3 of 672 elements beyond the bound
  worst element: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125
  reproduce: lossgrid run --impl fused --grid tp2cp4 --case &quot;vocab=96 lens=5+8&quot;
  failed: loss, ratio 3, 1 of 1 elements beyond the bound
  failed: grad_logits, ratio 1.23e+04, 3 of 672 elements beyond the bound: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125
  failed: determinism run_to_run: different bits, grad_logits
</failure>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.cp_local" name="tp1cp1 cpu" time="0.000">
      <skipped message="cp_local needs cp &gt; 1"/>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.fused" name="tp2cp1 cpu #2" time="0.000">
      <error type="crashed" message="rank 1: it ended">crashed: vocab=96 lens=5+8|tp2cp1|fused|cpu
  case: C0
  reason: rank 1: it ended
  first failed rank: 1
  ranks and their last collectives:
    rank 0 waiting in forward: all_reduce sum of 8 f32, call #5 of 'tp', entered
    rank 1 silent
</error>
    </testcase>
  </testsuite>
</testsuites>
)xml";

TEST(Junit, HoldsASmallRun) {
  EXPECT_EQ(exported("junit", small_run()), kExpectedJunit);
}

TEST(Junit, ATrialWhoseChecksPassFailsForItsReason) {
  RunRecord run = small_run();
  run.trials = {sample_trial(2, 1, "fused")};
  run.trials[0].status = TrialStatus::failed;
  run.trials[0].reason = "memory: peak of rank 0 in forward is 2048 bytes, predicted 1024";
  run.trials[0].invariants[0] = {"guard_bands", "failed", "byte 3 of logits"};
  const std::string text = exported("junit", run);
  EXPECT_THAT(text, HasSubstr("<failure type=\"failed\" message=\"memory: peak of rank 0"));
  EXPECT_THAT(text, HasSubstr("\n  failed: invariant guard_bands: byte 3 of logits\n"));
  EXPECT_THAT(text, Not(HasSubstr("shift_invariance")));  // not run
}

/// GitLab shows nothing beyond 30 MB or 500,000 test cases. Suite ci has fewer than 25,000 trials.
TEST(Junit, IsWithinTheLimitsOfGitLabWhateverFails) {
  RunRecord run = small_run();
  TrialRecord trial = sample_failure();
  trial.reason.append(2000, '"');
  trial.reproduce.append(100, '<');
  trial.checks.resize(10, trial.checks[2]);
  run.trials.in_memory().assign(25'000, trial);
  const std::string text = exported("junit", run);
  EXPECT_LT(text.size(), 30'000'000u);
  EXPECT_THAT(text.substr(0, 200), HasSubstr("tests=\"25001\" failures=\"25000\""));
  EXPECT_THAT(text.substr(0, 6000), HasSubstr("  failed: grad_logits, ratio"));
  EXPECT_THAT(text.substr(text.size() - 4000), HasSubstr(">the report has the rest\n</failure>"));
}

TEST(Junit, EndedTrialsAreErrorsAndUnrunOnesAreSkipped) {
  for (const TrialStatus status : {TrialStatus::error, TrialStatus::timeout, TrialStatus::crashed,
                                   TrialStatus::out_of_memory}) {
    RunRecord run = small_run();
    run.trials = {sample_cut_short(status)};
    EXPECT_THAT(exported("junit", run),
                HasSubstr("<error type=\"" + std::string(name(status)) +
                          "\" message=\"rank 1: it ended\">" + std::string(name(status)) + ": "));
  }
  RunRecord run = small_run();
  run.trials = {sample_cut_short(TrialStatus::not_run)};
  EXPECT_THAT(exported("junit", run),
              HasSubstr("<skipped message=\"not run: rank 1: it ended\"/>"));
}

TEST(Junit, ARunThatStoppedInTheMiddleIsAnError) {
  const std::string text = exported("junit", cut_off_run());
  EXPECT_THAT(text, HasSubstr("errors=\"1\""));
  EXPECT_THAT(text,
              HasSubstr("<error type=\"incomplete\" message=\"incomplete (ended in the middle "
                        "of vocab=96 lens=5+8|tp2cp1|fused|cpu): 1 passed\">"));
}

TEST(Junit, HoldsTimingsMutantsAndTheMeter) {
  const std::string text = exported("junit", bench_run());
  const std::string of_class = "classname=\"timing.lens=64 vocab=512.tp2cp1.hot\" name=\"";
  EXPECT_THAT(text, HasSubstr(of_class + "per_sequence forward\" time=\"0.002\">\n      <skipped "
                                         "message=\"unstable: 9 distinct samples\"/>"));
  EXPECT_THAT(text,
              HasSubstr("<failure type=\"above_ceiling\" message=\"above_ceiling: 131 % of "));
  EXPECT_THAT(text, HasSubstr("<failure type=\"failed\" message=\"failed: loss: ratio 2\">"));
  EXPECT_THAT(text,
              HasSubstr(of_class + "fused:chunk_tokens=7 forward_backward\" time=\"0.002\"/>"));
  EXPECT_THAT(text, HasSubstr(of_class + "linear_ce\" time=\"0.000\">\n      <skipped message="));
  EXPECT_THAT(text, HasSubstr("classname=\"lossgrid.meter\" name=\"copy\" time=\"0.000\">\n      "
                              "<failure type=\"meter\" message=\"measured 2.5 B, expected 1\">"));

  const std::string compared = exported("junit", export_runs().at("ab"));
  EXPECT_THAT(compared, HasSubstr("<testsuite name=\"A/B\" tests=\"3\" failures=\"2\" errors=\"0\" "
                                  "time=\"0.000\" skipped=\"1\""));
  EXPECT_THAT(compared, HasSubstr("<failure type=\"ab\" message=\"REGRESSED: 1.100 [1.090, "));
  EXPECT_THAT(compared, HasSubstr("<skipped message=\"INCONCLUSIVE: "));

  RunRecord mutants = sample_mutants_run();
  mutants.mutants[0].rejected = false;
  mutants.mutants[1].trials = 0;
  mutants.mutants[1].reason = "nothing to change in nll";
  mutants.mutants[3].rejected = true;
  const std::string score = exported("junit", mutants);
  EXPECT_THAT(score, HasSubstr("<skipped message=\"nothing applies: nothing to change in nll\"/>"));
  EXPECT_THAT(score, HasSubstr("failures=\"2\""));
  EXPECT_THAT(score, HasSubstr("message=\"a wrong implementation passes\""));
  EXPECT_THAT(score, HasSubstr("message=\"a right implementation is rejected\""));
}

TEST(Junit, XmllintFindsEveryRunValid) {
  if (!shell_has("xmllint --version")) GTEST_SKIP() << "no xmllint (libxml2-utils)";
  const TemporaryFolder folder;
  // Jenkins' own schema (xunit plugin, MIT), and the further rules of GitLab and GitHub's
  // reporters.
  const auto is_valid = [&](const std::string& schema) {
    return run_shell("xmllint --noout --schema " LOSSGRID_SOURCE_DIR "/tests/reports/exports/" +
                     schema + " " + folder.file("r.xml"));
  };
  for (const auto& [what, run] : export_runs()) {
    write_file_atomically(folder.file("r.xml"), exported("junit", run));
    for (const char* schema : {"junit-10.xsd", "junit.xsd"}) {
      const ShellOutcome outcome = is_valid(schema);
      EXPECT_EQ(outcome.exit_code, 0) << what << ": " << outcome.output;
    }
  }
  const auto refuses = [&](const std::string& schema, const std::string& before,
                           const std::string& after) {
    std::string text = exported("junit", small_run());
    text.replace(text.find(before), before.size(), after);
    write_file_atomically(folder.file("r.xml"), text);
    EXPECT_NE(is_valid(schema).exit_code, 0) << schema << ": " << after;
  };
  for (const char* schema : {"junit-10.xsd", "junit.xsd"}) {
    refuses(schema, "errors=\"1\"", "errors=\"1\" skipped=\"1\"");  // of all suites
    refuses(schema, "time=\"0.007\"", "time=\"0.007407\"");         // six decimals
  }
  refuses("junit.xsd", "tp2cp1 cpu #2", "tp2cp1 cpu");  // the same name twice
  refuses("junit.xsd", "<skipped message=\"", "<skipped because=\"because");
}

/// Python's parser reads the original text, markup included.
TEST(Junit, PythonReadsTheTextBack) {
  const TemporaryFolder folder;
  const std::string path = folder.file("r.xml");
  const auto read_back = [&](const RunRecord& run) {
    write_file_atomically(path, exported("junit", run));
    return run_shell("/usr/bin/python3 -c \"import xml.etree.ElementTree as e; r = e.parse('" +
                     path +
                     "').getroot(); print(len(r.findall('.//testcase')), r.get('tests')); "
                     "print(r.find('.//error').get('message')); "
                     "print(r.findall('testsuite')[1].get('name'))\"");
  };
  const RunRecord markup = export_runs().at("markup");
  EXPECT_EQ(read_back(markup).output, "5 5\n]]> | " + escape_controls("\x01\x1b") +
                                          "[31m \\ufffe <!--  ::error::z\nC0: a<b>&\"c\"\n");
  const RunRecord hostile = hostile_run();
  EXPECT_EQ(read_back(hostile).output,
            "10 10\n" + escape_controls(shortened(kHostile, 240)) + "\nC0: " +
                escape_controls(kHostile).substr(0, escape_controls(kHostile).find('|')) + '\n');
}

}  // namespace
}  // namespace lossgrid
