// SPDX-License-Identifier: Apache-2.0
// Exporter "github": annotations of GitHub Actions, as workflow commands on stdout. They are the
// verdict, an error for each trial or timing that is wrong, a warning for each timing or A/B
// comparison without a verdict. GitHub shows ten errors and ten warnings of a step and drops the
// rest, so nine are written and the number of further ones. Commands are escaped: text of the
// report begins no command.
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

constexpr std::size_t kMost = 9;
constexpr std::size_t kTitleWidth = 120;

struct Annotation {
  std::string title;
  std::string message;
};

std::string escaped(const std::string& text, bool property) {
  std::string out;
  for (const char c : escape_controls(text, "\n")) {
    if (c == '%' || c == '\n' || (property && (c == ':' || c == ','))) {
      out += fmt::format("%{:02X}", c);
    } else {
      out += c;
    }
  }
  return out;
}

/// Returns "file=cases/regress/tied.json," if the suite was given as a file of the repository:
/// GitHub then shows the annotation there. Else empty.
std::string file_property(const RunRecord& run) {
  const std::string& file = run.suite;
  const bool is_in_repository = file.ends_with(".json") && !file.starts_with('/') &&
                                file.find(',') == std::string::npos &&
                                file.find("..") == std::string::npos;
  return is_in_repository ? "file=" + escaped(file, true) + ',' : "";
}

std::string command(const char* kind, const std::string& file, const Annotation& annotation) {
  return fmt::format("::{} {}title={}::{}\n", kind, file,
                     escaped(shortened(annotation.title, kTitleWidth), true),
                     escaped(annotation.message, false));
}

std::string commands(const char* kind, const std::string& file,
                     const std::vector<Annotation>& annotations) {
  std::string out;
  for (std::size_t k = 0; k < annotations.size() && k < kMost; ++k) {
    out += command(kind, file, annotations[k]);
  }
  if (annotations.size() > kMost) {
    out +=
        command(kind, file, {"lossgrid", fmt::format("and {} more", annotations.size() - kMost)});
  }
  return out;
}

void add_trials(const RunRecord& run, std::vector<Annotation>& errors) {
  for (const TrialRecord& trial : run.trials) {
    if (!is_bad(trial.status)) continue;
    errors.push_back(
        {fmt::format("{}: {} on {}", name(trial.status), trial.implementation, trial.grid()),
         format_trial(trial)});
  }
}

void add_timing(TimingStatus status, const std::string& title, const std::string& reason,
                std::vector<Annotation>& errors, std::vector<Annotation>& warnings) {
  if (status == TimingStatus::timed || status == TimingStatus::skipped) return;
  (status == TimingStatus::unstable ? warnings : errors)
      .push_back({fmt::format("{}: {}", name(status), title), reason});
}

void add_timings(const RunRecord& run, std::vector<Annotation>& errors,
                 std::vector<Annotation>& warnings) {
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      add_timing(row.status, row.implementation + ' ' + row.phase, timing.id() + ": " + row.reason,
                 errors, warnings);
    }
    if (timing.rows.empty()) {
      add_timing(timing.status, timing.id(), timing.reason, errors, warnings);
    }
  }
}

void add_comparisons(const RunRecord& run, std::vector<Annotation>& errors,
                     std::vector<Annotation>& warnings) {
  for (const AbRecord& record : run.ab) {
    const bool bad = record.verdict == AbVerdict::regressed || record.is_false_alarm();
    if (!bad && record.verdict != AbVerdict::inconclusive) continue;
    (bad ? errors : warnings).push_back({ab_finding(record), ab_name(record)});
  }
}

std::string github_text(const RunRecord& run) {
  std::vector<Annotation> errors;
  std::vector<Annotation> warnings;
  const Annotation verdict{"lossgrid " + run.command, verdict_line(run)};
  if (!is_good(run)) errors.push_back(verdict);
  add_trials(run, errors);
  for (const MutantRecord& mutant : run.mutants) {
    const std::string problem = mutant_problem(mutant);
    if (!problem.empty()) errors.push_back({mutant.name + ": " + problem, mutant.what});
  }
  for (const MeterRecord& check : run.meter) {
    if (check.passed) continue;
    errors.push_back({"the meter is wrong: " + check.name,
                      fmt::format("measured {:.6g} {}, expected {:.6g}", check.measured, check.unit,
                                  check.expected)});
  }
  add_timings(run, errors, warnings);
  add_comparisons(run, errors, warnings);
  const std::string file = file_property(run);
  return (is_good(run) ? command("notice", file, verdict) : "") + commands("error", file, errors) +
         commands("warning", file, warnings);
}

const RegisteredExporter registered_github{
    {"github", "annotations of GitHub Actions; in a job also the step summary", github_text}};

}  // namespace
}  // namespace lossgrid
