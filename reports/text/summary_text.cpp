// SPDX-License-Identifier: Apache-2.0
// Summary of a run as text: the counts, and each trial that did not pass.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "reports/record/unjudged.h"
#include "reports/text/table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kReasonWidth = 240;  // the report has all of it

std::string trial_counts(const RunRecord& run) {
  const std::map<std::string, std::int64_t> counts = run.counts_by_status();
  std::vector<std::string> parts;
  for (const TrialStatus status : trial_statuses()) {
    const std::string key(name(status));
    const std::int64_t count = counts.at(key);
    // The number of passed trials is printed even if it is 0.
    if (count == 0 && status != TrialStatus::passed) continue;
    std::string words = key;
    std::replace(words.begin(), words.end(), '_', ' ');
    parts.push_back(fmt::format("{} {}", count, words));
  }
  return join(parts, ", ");
}

/// Returns one line a rank: its state, its phase, and its last collective or message.
std::string describe_ranks(const std::vector<RankRecord>& ranks) {
  constexpr std::size_t kMost = 16;
  std::string out;
  for (const RankRecord& rank : ranks) {
    if (static_cast<std::size_t>(&rank - ranks.data()) == kMost) {
      return out + fmt::format("    and {} more ranks\n", ranks.size() - kMost);
    }
    out += fmt::format("    rank {} {}", rank.rank, rank.state);
    if (!rank.phase.empty()) out += " in " + rank.phase;
    if (!rank.detail.empty()) {
      out += ": " + shortened(rank.message, kReasonWidth);
    } else if (!rank.collectives.empty()) {
      out += ": " + rank.collectives.back();
    }
    out += '\n';
  }
  return out;
}

/// Returns "2 timed, 1 unstable": counts of records, not of rows.
std::string timing_counts(const RunRecord& run) {
  std::map<TimingStatus, std::int64_t> counts;
  for (const TimingRecord& timing : run.timings) ++counts[timing.status];
  std::vector<std::string> parts;
  for (const auto& [status, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, name(status)));
  }
  return "timings: " + join(parts, ", ");
}

std::string ab_counts(const RunRecord& run) {
  std::map<AbVerdict, std::int64_t> counts;
  for (const AbRecord& record : run.ab) ++counts[record.verdict];
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, name(verdict)));
  }
  return "A/B: " + join(parts, ", ");
}

/// Returns one line a reason, in the order of first appearance.
std::string fold_by_reason(const RunRecord& run, TrialStatus status, std::string_view label) {
  struct Fold {
    std::string reason;
    std::int64_t count = 0;
    std::vector<std::string> implementations = {};
  };
  std::vector<Fold> folds;
  for (const TrialRecord& trial : run.trials) {
    if (trial.status != status) continue;
    auto at = std::find_if(folds.begin(), folds.end(),
                           [&](const Fold& fold) { return fold.reason == trial.reason; });
    if (at == folds.end()) at = folds.insert(folds.end(), {.reason = trial.reason});
    ++at->count;
    auto& names = at->implementations;
    if (std::find(names.begin(), names.end(), trial.implementation) == names.end()) {
      names.push_back(trial.implementation);
    }
  }
  std::string out;
  for (const Fold& fold : folds) {
    out +=
        fmt::format("{} {}: {} ({})\n", label, fold.count,
                    fold.reason.empty() ? "no reason given" : shortened(fold.reason, kReasonWidth),
                    join(fold.implementations, ", "));
  }
  return out;
}

/// Returns a line for every output of which a part was not compared.
std::string unjudged_lines(const RunRecord& run) {
  std::string out;
  for (const UnjudgedRow& row : unjudged_outputs(run)) {
    out += fmt::format("{}: {}: {}\n", row.implementation, row.output, row.state);
  }
  return out;
}

/// "0.52 s: generate 0.10, truth 0.05, ...".
std::string stages_line(const RunRecord& run, const TextStyle& style) {
  if (run.wall_ns == 0) return "";
  const auto seconds = [](std::int64_t ns) {
    return fmt::format("{:.2f}", static_cast<double>(ns) * 1e-9);
  };
  std::string out = "time: " + seconds(run.wall_ns) + " s (";
  for (std::size_t k = 0; k < kStages; ++k) {
    out += fmt::format("{} {}, ", name(static_cast<Stage>(k)), seconds(run.stages.ns[k]));
  }
  out += "other " + seconds(std::max<std::int64_t>(0, run.wall_ns - run.stages.total())) + ')';
  return fitted(out, style);
}

}  // namespace

const CheckRecord* worst_failed_check(const TrialRecord& trial) {
  const CheckRecord* worst = nullptr;
  for (const CheckRecord& check : trial.checks) {
    if (check.passed) continue;
    if (worst == nullptr || comparable_ratio(check.ratio) > comparable_ratio(worst->ratio)) {
      worst = &check;
    }
  }
  return worst;
}

std::vector<std::string> count_lines(const RunRecord& run) {
  std::vector<std::string> lines;
  // A run of mutants, or one that only times, has no trials to count.
  const bool only_trials = run.timings.empty() && run.mutants.empty() && run.ab.empty();
  if (!run.trials.empty() || only_trials) lines.push_back(trial_counts(run));
  if (!run.timings.empty()) lines.push_back(timing_counts(run));
  if (!run.ab.empty()) lines.push_back(ab_counts(run));
  if (!run.mutants.empty()) {
    const MutationScore score = run.mutation_score();
    lines.push_back(fmt::format("{} of {} mutants rejected, {} of {} controls accepted",
                                score.rejected, score.total, score.controls_accepted,
                                score.controls_total));
    if (score.not_run > 0) lines.back() += fmt::format(", {} did not run", score.not_run);
  }
  return lines;
}

std::string format_trial(const TrialRecord& trial, const TextStyle& style) {
  std::string out =
      fmt::format("{}: {}\n", style.bad(name(trial.status)), escape_controls(trial.id));
  if (!trial.case_name.empty())
    out += fmt::format("  case: {}\n", escape_controls(trial.case_name));
  if (!trial.reason.empty()) {
    out += fmt::format("  reason: {}\n", shortened(trial.reason, kReasonWidth));
  }
  for (const std::string& sentence : trial.explanation) {
    out += fmt::format("  explanation: {}\n", escape_controls(sentence));
  }
  if (trial.first_failed_rank >= 0) {
    out += fmt::format("  first failed rank: {}\n", trial.first_failed_rank);
  }
  if (!trial.ranks.empty()) out += "  ranks and their last collectives:\n";
  out += describe_ranks(trial.ranks);
  if (const CheckRecord* check = worst_failed_check(trial)) {
    out += fmt::format("  worst check: {}, ratio {:.3g}, {} of {} elements beyond the bound\n",
                       check->name, check->ratio, check->beyond_bound, check->compared);
    if (check->worst) out += fmt::format("  worst element: {}\n", format_worst(*check->worst));
  }
  if (!trial.reproduce.empty()) {
    out += fmt::format("  reproduce: {}\n", escape_controls(trial.reproduce));
  }
  return out;
}

std::string format_summary(const RunRecord& run, const TextStyle& style) {
  std::string out;
  for (const std::string& line : count_lines(run)) out += fitted(line, style);
  out += stages_line(run, style);
  const std::string folded = fold_by_reason(run, TrialStatus::skipped, "skipped") +
                             fold_by_reason(run, TrialStatus::not_run, "not run");
  if (!folded.empty()) out += '\n' + folded;
  const std::string unjudged = unjudged_lines(run);
  if (!unjudged.empty()) out += '\n' + unjudged;
  for (const TrialRecord& trial : run.trials) {
    if (is_bad(trial.status)) out += '\n' + format_trial(trial, style);
  }
  return out;
}

}  // namespace lossgrid
