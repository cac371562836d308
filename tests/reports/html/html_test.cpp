// SPDX-License-Identifier: Apache-2.0
// Tests of pages: their markup, and in a browser that they draw themselves, request nothing and can
// be used.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exports/export_runs.h"
#include "full_report.h"
#include "harness/core/file.h"
#include "reports/file/packed_text.h"
#include "reports/file/report_json.h"
#include "reports/html/html_page.h"
#include "reports/text/history_text.h"
#include "shell.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><img src=x onerror=window.hacked=1>\u2028'\"&amp;`${1}";

/// Returns a time that rises by a fifth and a counter that was 0; some runs have no date or commit.
ordered_json sample_history() {
  HistorySeries times{.metric = "time_ratio",
                      .case_text = kHostile,
                      .grid = "tp1cp1",
                      .implementation = "fused",
                      .phase = "forward",
                      .cache = "hot",
                      .reference = "fused",
                      .machine = "a CPU, 2 cpus"};
  for (int k = 0; k < 30; ++k) {
    const double noise = 1 + 0.002 * ((7 * k) % 5);
    times.points.push_back({.run = {.id = "0123456789abcdef",
                                    .started_utc = k == 0 ? "" : "2026-01-02T03:04:05Z",
                                    .commit = k < 2 ? "" : "abc1234"},
                            .value = (k < 15 ? 0.5 : 0.6) * noise,
                            .stderr_ratio = k == 1 ? std::nullopt : std::optional(0.002)});
  }
  HistorySeries calls{.metric = "calls",
                      .case_text = "lens=5+8",
                      .grid = "tp1cp1",
                      .implementation = "fused",
                      .backend = "cpu"};
  for (const double value : {0.0, 2.0, 2.0}) {
    calls.points.push_back({.run = {.id = "0"}, .value = value});
  }
  const ordered_json history = history_to_json({times, calls});
  EXPECT_EQ(history["series"][0]["changes"].size(), 1u) << history;
  EXPECT_EQ(history["series"][1]["changes"].size(), 1u) << history;
  return history;
}

/// Returns a run with one comparison of each verdict; the last interval has no end.
ordered_json sample_ab() {
  ordered_json records;
  for (const char* verdict : {"OK", "IMPROVED", "REGRESSED", "INCONCLUSIVE"}) {
    records.push_back({{"case", kHostile},
                       {"grid", "tp2cp1"},
                       {"cache", "hot"},
                       {"phase", "forward"},
                       {"a", "fused"},
                       {"b", "cp_local"},
                       {"ratio", 1.1},
                       {"low", 1.09},
                       {"high", 1.11},
                       {"confidence", 0.9937},
                       {"launches", 2},
                       {"pairs", 30},
                       {"margin", 0.03},
                       {"seed", 1},
                       {"verdict", verdict},
                       {"launch_ratios", {1.09, 1.1}}});
  }
  records.back()["high"] = nullptr;
  return records;
}

/// Returns a run with every status of trials, timings and mutants, and hostile text everywhere.
RunRecord full_run() {
  RunRecord run = bench_run();
  run.command = "mutants";
  run.mutants = sample_mutants_run().mutants;
  run.mutants[0].trials = 0;
  run.mutants[1].rejected = false;
  run.mutants[2].what = kHostile;
  run.suite = kHostile;
  run.arguments.push_back(kHostile);
  run.environment["host"]["cpu_model"] = kHostile;
  run.trials = small_run().trials;
  run.trials.push_back(sample_nan());
  run.trials.push_back(sample_linear_trial(4, 1e-7, 0.5));
  for (const TrialStatus status : trial_statuses()) run.trials.push_back(sample_cut_short(status));
  TrialRecord& hostile = run.trials[0];
  hostile.case_name = hostile.reason = hostile.reproduce = kHostile;
  hostile.implementation = kHostile;
  hostile.checks[0].name = hostile.invariants[0].detail = kHostile;
  hostile.memory[0].by_tag_bytes[kHostile] = 1;
  hostile.memory[0].measured_peak_bytes *= 2;
  hostile.cost_mismatches = {"memory"};
  hostile.communication[0].measured_calls += 1;
  // The case that is timed gets a map of costs with a value of every quantity.
  for (const char* implementation : {"per_sequence", "fused:chunk_tokens=7"}) {
    TrialRecord trial = sample_trial(2, 1, implementation);
    trial.id = "lens=64 vocab=512|tp2cp1|" + trial.implementation + "|cpu";
    run.trials.push_back(trial);
  }
  run.timings[0].rows.back().status = TimingStatus::timed;
  run.timings[0].rows[2].status = TimingStatus::unstable;
  run.timings.push_back(run.timings[0]);
  run.timings.back().rows.clear();
  run.timings.back().status = TimingStatus::timeout;
  run.timings.back().reason = kHostile;
  return run;
}

TEST(Html, NothingOfAReportStandsInTheMarkup) {
  RunRecord run = full_run();
  const std::string page = html_report(run, sample_history());
  EXPECT_THAT(page, Not(HasSubstr("onerror")));
  EXPECT_THAT(page, Not(HasSubstr("abc1234")));
  for (const char* left : {"@include", "@report@", "@context@", "http-equiv=\"refresh\""}) {
    EXPECT_THAT(page, Not(HasSubstr(left)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_EQ(page, html_report(run, sample_history()));
  run.trials[0].implementation = "another";
  EXPECT_NE(page, html_report(run, sample_history()));
}

/// Another program unpacks the same bytes.
std::string unpacked(const std::string& text) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("packed"), gzip_base64(text));
  EXPECT_EQ(
      run_shell("base64 -d " + folder.file("packed") + " | gzip -d >" + folder.file("text")).output,
      "");
  return read_text_file(folder.file("text"));
}

TEST(Html, PackedTextComesBack) {
  std::string long_text;  // one piece, and a little more
  for (int k = 0; long_text.size() < (1 << 20); ++k) long_text += std::to_string(k * 7919);
  for (const std::string& text : {std::string(), std::string("a"), std::string("\0\xff", 2),
                                  long_text.substr(0, 1 << 20), long_text}) {
    EXPECT_EQ(unpacked(text), text) << text.size();
  }
  EXPECT_THAT(gzip_base64(long_text), testing::MatchesRegex("[A-Za-z0-9+/]*=?=?"));
}

bool has_browser() {
  return shell_has("command -v chromium && command -v python3");
}

/// Returns the problems that tests/reports/SCRIPT finds in pages.
ShellOutcome check_pages(const std::string& script, const std::string& arguments) {
  return run_shell("python3 " LOSSGRID_SOURCE_DIR "/tests/reports/" + script + arguments);
}

TEST(Html, DrawsItselfInABrowser) {
  if (!has_browser()) GTEST_SKIP() << "needs chromium and python3";
  const TemporaryFolder folder;
  ordered_json report = full_report(full_run());
  report["ab"] = sample_ab();
  const ordered_json context{{"verdict", {{"good", false}, {"text", kHostile}}},
                             {"history", sample_history()}};
  write_file_atomically(folder.file("full.json"), json_text(report));
  write_file_atomically(folder.file("full.html"), html_page(report, context));
  std::string others;
  const auto add_page = [&](const std::string& name, const RunRecord& run) {
    write_file_atomically(folder.file(name), html_report(run, nullptr));
    others += " " + folder.file(name);
  };
  add_page("empty.html", RunRecord());
  add_page("cut_off.html", cut_off_run());
  add_page("only_timings.html", sample_bench_run());
  const ShellOutcome drawn = check_pages(
      "page_check.py", " " + folder.file("full.html") + " " + folder.file("full.json") + others);
  EXPECT_EQ(drawn.exit_code, 0) << drawn.output;
  const ShellOutcome fits =
      check_pages("page_layout_check.py", " " + folder.file("full.html") + others);
  EXPECT_EQ(fits.exit_code, 0) << fits.output;
}

/// A page, and the facts that page_verdict_check.py has to find in it.
class ExpectedPages {
 public:
  void add(const std::string& name, const RunRecord& run, const ordered_json& expected) {
    write_file_atomically(folder_.file(name), html_report(run, nullptr));
    pages_.push_back(expected);
    pages_.back()["path"] = folder_.file(name);
  }
  ShellOutcome check() const {
    write_file_atomically(folder_.file("pages.json"), json_text(pages_));
    return check_pages("page_verdict_check.py", " " + folder_.file("pages.json"));
  }

 private:
  TemporaryFolder folder_;
  ordered_json pages_ = ordered_json::array();
};

RunRecord green_run() {
  RunRecord run = sample_run();
  run.exit_code = 0;
  run.trials = {sample_trial(1, 1, "fused"), sample_trial(2, 1, "fused"), sample_skip(1)};
  for (TrialRecord& trial : run.trials.in_memory()) {
    trial.unjudged = {{"entropy", "value checked, gradient not"}};
  }
  return run;
}

/// Returns a run in which two of five trials failed; the second one got a NaN.
RunRecord failed_run() {
  RunRecord run = sample_run();
  run.trials[1].reproduce = "lossgrid run of the first";
  run.trials[2].reproduce = "lossgrid run of the worst";
  return run;
}

/// A trial hangs, crashes, ... beside one that failed in the same place.
RunRecord halted_run(TrialStatus status, int exit_code) {
  RunRecord run = sample_run();
  run.exit_code = exit_code;
  if (status == TrialStatus::timeout) run.status = "partial";
  TrialRecord failed = sample_failure();
  failed.tp = 2;
  failed.cp = 1;
  TrialRecord halted = sample_cut_short(status);
  halted.reproduce = "lossgrid run of it";
  run.trials = {sample_trial(2, 1, "fused"), failed, halted,
                sample_cut_short(TrialStatus::not_run)};
  return run;
}

TEST(Html, ShowsProblemsAtOnce) {
  if (!has_browser()) GTEST_SKIP() << "needs chromium and python3";
  const std::string failure = "logprobs is wrong: rank 0, sequence 0, token 2: got nan, want -6.25";
  const std::string first =
      "grad_logits is wrong, 1e+4 times its bound: rank 2, sequence 1, token 17, vocab id 94: got "
      "-0.25, want -0.125; so is 1 other check";
  ExpectedPages pages;
  pages.add(
      "green.html", green_run(),
      {{"kind", "good"},
       {"lines", {"passed: 2 passed, 1 skipped", "fused: entropy: value checked, gradient not"}},
       {"commands", ordered_json::array()},
       {"cells",
        {{"fused tp1cp1", {"fine", "0.5"}},
         {"fused tp2cp1", {"fine", "0.5"}},
         {"cp_local tp1cp1", {"none", "skipped"}}}},
       {"pick", "fused tp2cp1"},
       {"rows", 1}});
  pages.add("failed.html", failed_run(),
            {{"kind", "bad"},
             {"lines",
              {"2 of 5 trials failed",
               "failed (correctness, exit code 10): 1 passed, 2 failed, 2 skipped",
               "fused on tp2cp4 C0 (vocab=96 lens=5+8)" + first,
               "fused on tp1cp2 C0 (vocab=96 lens=5+8)" + failure}},
             {"commands", {"lossgrid run of the worst"}},
             {"cells",
              {{"fused tp1cp1", {"fine", "0.5"}},
               {"fused tp2cp4", {"bad", "1e+41 of 1 failed"}},
               {"fused tp1cp2", {"bad", "inf1 of 1 failed"}}}},
             {"pick", "fused tp1cp2"},
             {"rows", 1}});
  const auto add_halted = [&](TrialStatus status, int exit_code, const std::string& happened) {
    std::string word(name(status));
    std::replace(word.begin(), word.end(), '_', ' ');
    pages.add(word + ".html", halted_run(status, exit_code),
              {{"kind", "bad"},
               {"lines",
                {"1 of 4 trials " + happened + ", 1 failed",
                 "fused on tp2cp1 C0 (vocab=96 lens=5+8)" + first,
                 "fused on tp2cp1 C0 (vocab=96 lens=5+8)" + happened + ": rank 1: it ended"}},
               {"commands", {"lossgrid run of it"}},
               {"cells",
                {{"fused tp2cp1", {"halted", word + "1 of 4 " + word + ", 1 failed, 1 not run"}}}},
               {"pick", "fused tp2cp1"},
               {"rows", 4}});
  };
  add_halted(TrialStatus::timeout, 15, "hung");
  add_halted(TrialStatus::crashed, 14, "crashed");
  add_halted(TrialStatus::error, 14, "ended in an error");
  add_halted(TrialStatus::out_of_memory, 14, "ran out of memory");
  pages.add("dead.html", cut_off_run(),
            {{"kind", "bad"},
             {"lines",
              {"The run died in the middle of a trial: 1 of 8 planned trials done, 0 of 2 planned "
               "timings done",
               "fused on tp2cp1 (vocab=96 lens=5+8)It ran when the run died."}},
             {"commands", {cut_off_run().begun_reproduce}},
             {"cells",
              {{"fused tp1cp1", {"fine", "0.5"}},
               {"fused tp2cp1", {"halted", "in progresswhen the run died"}}}},
             {"pick", "fused tp2cp1"},
             {"rows", 0}});
  const ShellOutcome outcome = pages.check();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Html, DrawsALongTableInParts) {
  if (!has_browser()) GTEST_SKIP() << "needs chromium and python3";
  RunRecord run = green_run();
  run.trials.clear();
  for (int k = 0; k < 2020; ++k) {
    run.trials.push_back(sample_trial(k < 20 ? 2 : 1, 1, "fused"));
    run.trials.back().id.insert(0, fmt::format("seed={} ", k));
  }
  ExpectedPages pages;
  pages.add("long.html", run,
            {{"kind", "good"},
             {"lines", {"passed: 2020 passed"}},
             {"commands", ordered_json::array()},
             {"cells", {{"fused tp1cp1", {"fine", "0.5"}}, {"fused tp2cp1", {"fine", "0.5"}}}},
             {"pick", "fused tp2cp1"},
             {"rows", 20},
             {"drawn", 50}});
  const ShellOutcome outcome = pages.check();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

/// Characters that are invisible or change the direction of text.
TEST(Html, SpellsOutWhatIsNotSeen) {
  if (!has_browser()) GTEST_SKIP() << "needs chromium and python3";
  RunRecord run = failed_run();
  run.trials.in_memory().resize(2);
  TrialRecord& trial = run.trials[1];
  trial.checks.clear();
  trial.reason = "<b>\x1b[31m\n\xe2\x80\xae</b>";
  trial.case_name = "a\tb";
  trial.reproduce = "lossgrid replay 'a\nb'";
  ExpectedPages pages;
  pages.add("unseen.html", run,
            {{"kind", "bad"},
             {"lines",
              {"fused on tp2cp4 a\\x09b (vocab=96 lens=5+8)failed: "
               "<b>\\x1b[31m\\x0a\\u202e</b>"}},
             {"commands", {"lossgrid replay 'a\\x0ab'"}},
             {"cells", {{"fused tp2cp4", {"bad", "failed"}}}}});
  const ShellOutcome outcome = pages.check();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace lossgrid
