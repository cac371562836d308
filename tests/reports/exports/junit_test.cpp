// SPDX-License-Identifier: Apache-2.0
// The text of a small run, and xmllint with a schema (junit.xsd) on every run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "shell.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kExpected = R"xml(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="lossgrid" tests="12" failures="3" errors="1" skipped="2" time="0.007407">
  <testsuite name="run" tests="1" failures="0" errors="0" skipped="0" time="0.000000" timestamp="2026-01-02T03:04:05">
    <properties>
      <property name="command" value="lossgrid run --suite smoke"/>
      <property name="suite" value="smoke"/>
      <property name="exit_code" value="10"/>
      <property name="version" value="0.1.0"/>
      <property name="git_revision" value="abc1234"/>
      <property name="cpu_model" value="a model"/>
    </properties>
    <testcase classname="lossgrid.run" name="complete" time="0.000000"/>
  </testsuite>
  <testsuite name="C0: vocab=96 lens=5+8" tests="11" failures="3" errors="1" skipped="2" time="0.007407" timestamp="2026-01-02T03:04:05">
    <testcase classname="vocab=96 lens=5+8.tp2cp1.fused.cpu" name="loss" time="0.003704"/>
    <testcase classname="vocab=96 lens=5+8.tp2cp1.fused.cpu" name="logprobs" time="0.000000"/>
    <testcase classname="vocab=96 lens=5+8.tp2cp1.fused.cpu" name="invariant same_bits_on_all_ranks" time="0.000000"/>
    <testcase classname="vocab=96 lens=5+8.tp2cp1.fused.cpu" name="invariant shift_invariance" time="0.000000">
      <skipped message="an offset would overflow"/>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.tp2cp1.fused.cpu" name="determinism run_to_run" time="0.000000"/>
    <testcase classname="vocab=96 lens=5+8.tp2cp4.fused.cpu" name="loss" time="0.003704">
      <failure type="tolerance" message="ratio 3, 1 of 1 elements beyond the bound">failed: vocab=96 lens=5+8|tp2cp4|fused|cpu
  case: C0
  reason: grad_logits: ratio 1.2e+04
  worst check: grad_logits, ratio 1.23e+04, 3 of 672 elements beyond the bound
  worst element: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125
  reproduce: lossgrid run --impl fused --grid tp2cp4 --case &quot;vocab=96 lens=5+8&quot;
</failure>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.tp2cp4.fused.cpu" name="grad_logits" time="0.000000">
      <failure type="tolerance" message="ratio 1.23e+04, 3 of 672 elements beyond the bound: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125">failed: vocab=96 lens=5+8|tp2cp4|fused|cpu
  case: C0
  reason: grad_logits: ratio 1.2e+04
  worst check: grad_logits, ratio 1.23e+04, 3 of 672 elements beyond the bound
  worst element: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125
  reproduce: lossgrid run --impl fused --grid tp2cp4 --case &quot;vocab=96 lens=5+8&quot;
</failure>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.tp2cp4.fused.cpu" name="grad_logits_bias" time="0.000000"/>
    <testcase classname="vocab=96 lens=5+8.tp2cp4.fused.cpu" name="determinism run_to_run" time="0.000000">
      <failure type="determinism" message="different bits, grad_logits">failed: vocab=96 lens=5+8|tp2cp4|fused|cpu
  case: C0
  reason: grad_logits: ratio 1.2e+04
  worst check: grad_logits, ratio 1.23e+04, 3 of 672 elements beyond the bound
  worst element: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125
  reproduce: lossgrid run --impl fused --grid tp2cp4 --case &quot;vocab=96 lens=5+8&quot;
</failure>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.tp1cp1.cp_local.cpu" name="trial" time="0.000000">
      <skipped message="cp_local needs cp &gt; 1"/>
    </testcase>
    <testcase classname="vocab=96 lens=5+8.tp2cp1.fused.cpu" name="trial" time="0.000000">
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

TEST(Junit, ASmallRun) {
  EXPECT_EQ(exported("junit", small_run()), kExpected);
}

TEST(Junit, ATrialWhoseChecksPassFailsAsAWhole) {
  RunRecord run = small_run();
  run.trials = {sample_trial(2, 1, "fused")};
  run.trials[0].status = TrialStatus::failed;
  run.trials[0].reason = "memory: peak of rank 0 in forward is 2048 bytes, predicted 1024";
  EXPECT_THAT(exported("junit", run),
              HasSubstr("name=\"trial\" time=\"0.000000\">\n"
                        "      <failure type=\"failed\" message=\"memory: peak of rank 0"));
  run.trials[0].checks[0].passed = false;
  EXPECT_THAT(exported("junit", run), Not(HasSubstr("name=\"trial\"")));
}

TEST(Junit, WhatEndedIsAnErrorAndWhatDidNotRunIsSkipped) {
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

TEST(Junit, TimingsMutantsAndTheMeter) {
  const std::string text = exported("junit", bench_run());
  const std::string of_class = "classname=\"timing.lens=64 vocab=512.tp2cp1.hot\" name=\"";
  EXPECT_THAT(text,
              HasSubstr(of_class + "per_sequence forward\" time=\"0.001500\">\n      <skipped "
                                   "message=\"unstable: 9 distinct samples\"/>"));
  EXPECT_THAT(text,
              HasSubstr("<failure type=\"above_ceiling\" message=\"above_ceiling: 131 % of "));
  EXPECT_THAT(text, HasSubstr("<failure type=\"failed\" message=\"failed: loss: ratio 2\">"));
  EXPECT_THAT(text,
              HasSubstr(of_class + "fused:chunk_tokens=7 forward_backward\" time=\"0.002000\"/>"));
  EXPECT_THAT(text,
              HasSubstr(of_class + "linear_ce\" time=\"0.000000\">\n      <skipped message="));
  EXPECT_THAT(text,
              HasSubstr("classname=\"lossgrid.meter\" name=\"copy\" time=\"0.000000\">\n      "
                        "<failure type=\"meter\" message=\"measured 2.5 B, expected 1\">"));

  const std::string compared = exported("junit", export_runs().at("ab"));
  EXPECT_THAT(compared, HasSubstr("<testsuite name=\"A/B\" tests=\"3\" failures=\"2\" errors=\"0\" "
                                  "skipped=\"1\""));
  EXPECT_THAT(compared, HasSubstr("<failure type=\"ab\" message=\"REGRESSED: 1.100 [1.090, "));
  EXPECT_THAT(compared, HasSubstr("<skipped message=\"INCONCLUSIVE: "));

  RunRecord mutants = sample_mutants_run();
  mutants.mutants[0].rejected = false;
  mutants.mutants[3].rejected = true;
  const std::string score = exported("junit", mutants);
  EXPECT_THAT(score, HasSubstr("failures=\"2\""));
  EXPECT_THAT(score, HasSubstr("message=\"a wrong implementation passes\""));
  EXPECT_THAT(score, HasSubstr("message=\"a right implementation is rejected\""));
}

TEST(Junit, XmllintFindsEveryRunValid) {
  if (!shell_has("xmllint --version")) GTEST_SKIP() << "no xmllint (libxml2-utils)";
  const TemporaryFolder folder;
  const std::string command = "xmllint --noout --schema " LOSSGRID_SOURCE_DIR
                              "/tests/reports/exports/junit.xsd " +
                              folder.file("r.xml");
  for (const auto& [what, run] : export_runs()) {
    write_file_atomically(folder.file("r.xml"), exported("junit", run));
    const ShellOutcome outcome = run_shell(command);
    EXPECT_EQ(outcome.exit_code, 0) << what << ": " << outcome.output;
  }
  std::string text = exported("junit", small_run());
  text.replace(text.find("name=\"logprobs\""), 15, "name=\"loss\"");
  write_file_atomically(folder.file("r.xml"), text);
  EXPECT_NE(run_shell(command).exit_code, 0);  // the same name twice
}

/// What Python's parser reads is what was meant, markup included.
TEST(Junit, PythonReadsTheTextBack) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("r.xml"), exported("junit", export_runs().at("markup")));
  const ShellOutcome outcome = run_shell(
      "python3 -c \"import xml.etree.ElementTree as e; r = e.parse('" + folder.file("r.xml") +
      "').getroot(); print(len(r.findall('.//testcase')), r.get('tests')); "
      "print(r.find('.//error').get('message')); print(r.findall('testsuite')[1].get('name'))\"");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "12 12\n]]> | [31m  <!--  ::error::z\nC0: a<b>&\"c\"\n");
}

}  // namespace
}  // namespace lossgrid
