// SPDX-License-Identifier: Apache-2.0
// Exporter "junit": JUnit XML. One suite a case, one test case a trial; its checks are the text of
// a failure. Each row of a timing, each mutant, each check of the meter, and the end of the run are
// test cases too. Wrong numbers are failures, trials without a verdict are errors, trials that were
// left out are skipped. The file is valid for the schema junit-10 of Jenkins and within the limits
// of GitLab (30 MB, 500,000 test cases): names are unique by class and name, times have three
// decimals, and text that XML 1.0 forbids is escaped.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kMessageWidth = 240;  // the report has all of it
// Beyond this size failures have a short message and no text, so that readers still take a run in
// which everything is wrong.
constexpr std::size_t kLongBytes = 8 << 20;
constexpr std::size_t kShortWidth = 60;

struct TestCase {
  std::string class_name;
  std::string name;
  double seconds = 0;
  std::string outcome;  // "failure", "error", "skipped"; empty: passed
  std::string type;     // of a failure or error
  std::string message;  // one line
  std::string text;     // of a failure or error: all known details
};

struct TestSuite {
  std::string name;
  std::vector<TestCase> cases = {};
};

/// Escapes text for XML; fit for attributes in double quotes too, unless `kept` has line breaks.
std::string escaped(std::string_view text, std::string_view kept = "") {
  const std::string plain = escape_controls(text, kept);
  std::string out;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const char c = plain[i];
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (plain.compare(i, 3, "\xef\xbf\xbe") == 0 ||
               plain.compare(i, 3, "\xef\xbf\xbf") == 0) {
      out += plain[i + 2] == '\xbe' ? "\\ufffe" : "\\uffff";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

/// Joins parts by dots, which readers take for a hierarchy of packages.
std::string dotted(std::vector<std::string> parts) {
  for (std::string& part : parts) std::replace(part.begin(), part.end(), '.', '_');
  return join(parts, ".");
}

std::string or_no_reason(const std::string& reason) {
  return reason.empty() ? "no reason given" : reason;
}

/// Returns a line for each check, invariant and claimed determinism that did not pass.
std::string failed_checks(const TrialRecord& trial) {
  std::string out;
  for (const CheckRecord& check : trial.checks) {
    if (check.passed) continue;
    out += fmt::format("  failed: {}, ratio {:.3g}, {} of {} elements beyond the bound", check.name,
                       check.ratio, check.beyond_bound, check.compared);
    out += check.worst ? ": " + format_worst(*check.worst) + '\n' : "\n";
  }
  for (const InvariantRecord& invariant : trial.invariants) {
    if (invariant.status != "failed") continue;
    out +=
        fmt::format("  failed: invariant {}: {}\n", invariant.name, or_no_reason(invariant.detail));
  }
  for (const DeterminismRecord& bits : trial.determinism) {
    if (!bits.claimed || bits.verdict != "different_bits") continue;
    out += fmt::format("  failed: determinism {}: different bits{}\n", bits.name,
                       bits.detail.empty() ? "" : ", " + bits.detail);
  }
  return out;
}

TestCase case_of(const TrialRecord& trial) {
  TestCase made;
  made.class_name = dotted({case_text(trial), trial.implementation});
  made.name = trial.grid() + ' ' + trial.backend;
  for (const PhaseTimeRecord& time : trial.times) {
    made.seconds += static_cast<double>(time.max_over_ranks_ns) * 1e-9;
  }
  if (trial.status == TrialStatus::passed) return made;
  made.type = name(trial.status);
  made.message = shortened(or_no_reason(trial.reason), kMessageWidth);
  if (is_bad(trial.status)) {
    made.outcome = trial.status == TrialStatus::failed ? "failure" : "error";
    made.text = format_trial(trial) + failed_checks(trial);
  } else {
    made.outcome = "skipped";
    if (trial.status == TrialStatus::not_run) made.message = "not run: " + made.message;
  }
  return made;
}

void judge(TimingStatus status, const std::string& reason, TestCase& made) {
  if (status == TimingStatus::timed) return;
  const bool no_verdict = status == TimingStatus::skipped || status == TimingStatus::unstable;
  made.outcome = no_verdict ? "skipped" : was_cut_short(status) ? "error" : "failure";
  made.type = name(status);
  made.message = fmt::format("{}: {}", name(status), or_no_reason(reason));
  made.text = made.message + '\n';
}

TestSuite suite_of(const TimingRecord& timing) {
  TestSuite suite{.name = timing.id()};
  for (const TimingRow& row : timing.rows) {
    TestCase& made = suite.cases.emplace_back();
    made.name = row.implementation + ' ' + row.phase;
    made.seconds = static_cast<double>(row.time.median_ns) * 1e-9;
    judge(row.status, row.reason, made);
  }
  for (const SkippedTiming& skipped : timing.skipped) {
    TestCase& made = suite.cases.emplace_back();
    made.name = skipped.implementation;
    judge(TimingStatus::skipped, skipped.reason, made);
  }
  if (timing.rows.empty()) {
    TestCase& made = suite.cases.emplace_back();
    made.name = "timing";
    judge(timing.status, timing.reason, made);
  }
  for (TestCase& made : suite.cases) {
    made.class_name = dotted({"timing", timing.case_text, timing.grid, timing.cache});
  }
  return suite;
}

TestSuite suite_of(const std::vector<MutantRecord>& mutants) {
  TestSuite suite{.name = "mutants"};
  for (const MutantRecord& mutant : mutants) {
    TestCase& made = suite.cases.emplace_back();
    made.class_name = mutant.is_control ? "lossgrid.controls" : "lossgrid.mutants";
    made.name = mutant.name;
    made.message = mutant_problem(mutant);
    if (mutant.trials == 0) {
      made.outcome = "skipped";
      made.message = "nothing applies: " + mutant.reason;
    }
    if (made.message.empty() || mutant.trials == 0) continue;
    made.outcome = "failure";
    made.type = mutant.is_control ? "control" : "mutant";
    made.text = mutant.what + '\n' + mutant.reproduce + '\n';
  }
  return suite;
}

TestSuite suite_of(const std::vector<MeterRecord>& meter) {
  TestSuite suite{.name = "meter"};
  for (const MeterRecord& check : meter) {
    TestCase& made = suite.cases.emplace_back();
    made.class_name = "lossgrid.meter";
    made.name = check.name;
    if (check.passed) continue;
    made.outcome = "failure";
    made.type = "meter";
    made.message = fmt::format("measured {:.6g} {}, expected {:.6g}", check.measured, check.unit,
                               check.expected);
    made.text = check.detail + '\n';
  }
  return suite;
}

/// An inconclusive comparison is skipped: neither a failure nor a pass.
TestSuite suite_of(const std::vector<AbRecord>& comparisons) {
  TestSuite suite{.name = "A/B"};
  for (const AbRecord& record : comparisons) {
    TestCase& made = suite.cases.emplace_back();
    made.class_name = "lossgrid.ab";
    made.name = ab_name(record);
    made.message = ab_finding(record);
    if (record.verdict == AbVerdict::inconclusive) {
      made.outcome = "skipped";
    } else if (record.verdict == AbVerdict::regressed || record.is_false_alarm()) {
      made.outcome = "failure";
      made.type = "ab";
      made.text = made.message + '\n';
    }
  }
  return suite;
}

/// Makes a test case of the end of the run: a report that stops in the middle must not look as if
/// all had passed.
TestSuite suite_of_run(const RunRecord& run) {
  TestCase made;
  made.class_name = "lossgrid.run";
  made.name = "complete";
  if (run.status != "complete") {
    made.outcome = "error";
    made.type = "incomplete";
    made.message = verdict_line(run);
    made.text = made.message + '\n';
  }
  return {.name = "run", .cases = {made}};
}

std::vector<TestSuite> suites_of(const RunRecord& run) {
  std::vector<TestSuite> suites{suite_of_run(run)};
  const std::size_t first_case = suites.size();
  for (const TrialRecord& trial : run.trials) {
    const std::string title = trial.case_title();
    auto at = std::find_if(suites.begin() + static_cast<std::ptrdiff_t>(first_case), suites.end(),
                           [&](const TestSuite& suite) { return suite.name == title; });
    if (at == suites.end()) at = suites.insert(suites.end(), {.name = title});
    at->cases.push_back(case_of(trial));
  }
  for (const TimingRecord& timing : run.timings) suites.push_back(suite_of(timing));
  if (!run.ab.empty()) suites.push_back(suite_of(run.ab));
  if (!run.mutants.empty()) suites.push_back(suite_of(run.mutants));
  if (!run.meter.empty()) suites.push_back(suite_of(run.meter));
  return suites;
}

struct Totals {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;

  void add(const TestCase& made) {
    ++tests;
    failures += made.outcome == "failure" ? 1 : 0;
    errors += made.outcome == "error" ? 1 : 0;
    skipped += made.outcome == "skipped" ? 1 : 0;
    seconds += made.seconds;
  }
  std::string attributes() const {
    return fmt::format(R"(tests="{}" failures="{}" errors="{}" time="{:.3f}")", tests, failures,
                       errors, seconds);
  }
};

std::string properties_of(const RunRecord& run) {
  std::string out = "    <properties>\n";
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", name, escaped(value));
  };
  add("command", "lossgrid " + join(run.arguments, " "));
  add("suite", run.suite);
  add("exit_code", std::to_string(run.exit_code));
  add("version", environment_text(run, "tool", "version"));
  add("git_revision", environment_text(run, "tool", "git_revision"));
  add("cpu_model", environment_text(run, "host", "cpu_model"));
  return out + "    </properties>\n";
}

std::string xml_of(const TestCase& made) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                escaped(made.class_name), escaped(made.name), made.seconds);
  if (made.outcome.empty()) return out + "/>\n";
  out += fmt::format(">\n      <{} ", made.outcome);
  if (made.outcome == "skipped") {
    out += fmt::format("message=\"{}\"/>\n", escaped(made.message));
  } else {
    out += fmt::format("type=\"{}\" message=\"{}\">{}</{}>\n", escaped(made.type),
                       escaped(made.message), escaped(made.text, "\n\t"), made.outcome);
  }
  return out + "    </testcase>\n";
}

std::string junit_text(const RunRecord& run) {
  std::vector<TestSuite> suites = suites_of(run);
  // "2026-01-02T03:04:05": the schemas have no time zone.
  const std::string started = run.started_utc.substr(0, run.started_utc.find('Z'));
  UniqueNames unique;
  Totals of_all;
  std::string body;
  for (TestSuite& suite : suites) {
    Totals of_suite;
    std::string cases = &suite == suites.data() ? properties_of(run) : "";
    for (TestCase& made : suite.cases) {
      const std::string begin = made.class_name + '\n';
      made.name = unique(begin + made.name).substr(begin.size());
      of_suite.add(made);
      of_all.add(made);
      if (body.size() + cases.size() > kLongBytes && !made.text.empty()) {
        made.message = shortened(made.message, kShortWidth);
        made.text = "the report has the rest\n";
      }
      cases += xml_of(made);
    }
    body += fmt::format("  <testsuite name=\"{}\" {} skipped=\"{}\"{}>\n{}  </testsuite>\n",
                        escaped(suite.name), of_suite.attributes(), of_suite.skipped,
                        started.empty() ? "" : fmt::format(" timestamp=\"{}\"", escaped(started)),
                        cases);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lossgrid\" {}>\n"
      "{}</testsuites>\n",
      of_all.attributes(), body);
}

const RegisteredExporter registered_junit{
    {"junit", "JUnit XML, a test case a trial: GitLab, Jenkins, test reporters of GitHub",
     junit_text}};

}  // namespace
}  // namespace lossgrid
