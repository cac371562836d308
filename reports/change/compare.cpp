// SPDX-License-Identifier: Apache-2.0
#include "reports/change/compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reports/change/compare_notes.h"

namespace lossgrid {
namespace {

bool has_verdict(TrialStatus status) {
  return is_bad(status) || status == TrialStatus::passed;
}

Policy built_in_policy(double time_margin_ratio) {
  Policy policy;
  for (const char* counter : {"peak_bytes", "allocations", "calls", "payload_bytes"}) {
    policy.rules.push_back({.metric = counter, .tolerance_ratio = 0});
  }
  policy.rules.push_back({.metric = "time_ratio", .tolerance_ratio = time_margin_ratio});
  return policy;
}

std::map<std::string, Selection::Row> rows_by_id(const std::vector<TimingRecord>& timings) {
  std::map<std::string, Selection::Row> rows;
  for (const TimingRecord& timing : timings) {
    for (const TimingRow& row : timing.rows) {
      rows.emplace(row_id(timing, row), Selection::Row(&timing, &row));
    }
  }
  return rows;
}

class Comparer {
 public:
  Comparer(const RunRecord& base, const RunRecord& head, double margin)
      : base_(base),
        head_(head),
        is_dead_(head.status != "complete"),
        policy_(built_in_policy(margin)) {
    comparison_.time_margin_ratio = margin;
  }

  Comparison compare() {
    compare_trials();
    compare_timings();
    std::stable_sort(comparison_.findings.begin(), comparison_.findings.end(),
                     [](const Finding& a, const Finding& b) {
                       return std::tie(a.verdict, a.kind) < std::tie(b.verdict, b.kind);
                     });
    comparison_.notes = comparison_notes(base_, head_);
    if (is_dead_) {
      end_in_the_middle();
    } else if (comparison_.trials == 0 && comparison_.rows == 0) {
      throw_bad_input("the reports have no trial and no timed row in common");
    }
    return std::move(comparison_);
  }

 private:
  void compare_trials() {
    std::map<std::string, const TrialRecord*> in_head;
    for (const TrialRecord& trial : head_.trials) in_head[trial.id] = &trial;
    std::set<std::string> in_base;
    for (const TrialRecord& trial : base_.trials) {
      if (!in_base.insert(trial.id).second) continue;
      const auto found = in_head.find(trial.id);
      if (found != in_head.end()) {
        ++comparison_.trials;
        compare_trial(trial, *found->second);
      } else if (has_verdict(trial.status)) {
        lose(subject_of(trial), trial.id, name(trial.status), "not there", trials_not_reached_);
      }
    }
    for (const auto& [id, trial] : in_head) {
      const bool is_skipped = trial->status == TrialStatus::skipped;
      if (in_base.contains(id) || !(has_verdict(trial->status) || is_skipped)) continue;
      add(ChangeKind::verdict, is_bad(trial->status) ? Verdict::failed : Verdict::added, id,
          "not there", with_reason(name(trial->status), is_skipped ? trial->reason : ""),
          exit_code_of(*trial));
    }
  }

  void compare_trial(const TrialRecord& base, const TrialRecord& head) {
    if (has_verdict(base.status) && !has_verdict(head.status)) {
      const bool is_skipped = head.status == TrialStatus::skipped;
      lose(subject_of(base), base.id, name(base.status),
           with_reason(name(head.status), is_skipped ? head.reason : ""), trials_not_reached_);
      return;
    }
    if (is_bad(base.status) != is_bad(head.status)) {
      add(ChangeKind::verdict, is_bad(head.status) ? Verdict::failed : Verdict::improved, base.id,
          name(base.status), with_reason(name(head.status), head.reason), exit_code_of(head));
    }
    if (was_cut_short(base.status) || was_cut_short(head.status)) return;  // they counted nothing
    judge({.trials = {&base}}, {.trials = {&head}});
  }

  void compare_timings() {
    std::map<std::string, const TimingRecord*> cut_short;
    for (const TimingRecord& timing : head_.timings) {
      if (was_cut_short(timing.status)) cut_short[timing.id()] = &timing;
    }
    const TimingRecord* last_cut_short = nullptr;
    const std::map<std::string, Selection::Row> in_head = rows_by_id(head_.timings);
    for (const auto& [id, row] : rows_by_id(base_.timings)) {
      const auto found = in_head.find(id);
      const auto dead = cut_short.find(row.first->id());
      if (dead == cut_short.end() && found == in_head.end()) {
        lose(subject_of(*row.first, *row.second), id, "timed", "not there", rows_not_reached_);
        continue;
      }
      ++comparison_.rows;
      if (dead == cut_short.end()) {
        compare_row(id, row, found->second);
      } else if (std::exchange(last_cut_short, dead->second) != dead->second) {
        const TimingRecord& timing = *dead->second;  // one change for all its rows
        add(ChangeKind::verdict, Verdict::failed, timing.id(), "timed",
            fmt::format("{}: {}", name(timing.status), timing.reason), exit_code_of(timing.status));
      }
    }
  }

  void compare_row(const std::string& id, const Selection::Row& base, const Selection::Row& head) {
    const TimingStatus before = base.second->status;
    const TimingStatus now = head.second->status;
    if (before < TimingStatus::above_ceiling && now >= TimingStatus::above_ceiling) {
      add(ChangeKind::time, Verdict::failed, id, name(before), name(now),
          ExitCode::time_regression);
    }
    judge({.rows = {base}}, {.rows = {head}});
  }

  /// Judges the numbers of one trial or row.
  void judge(const Selection& base, const Selection& head) {
    std::vector<Finding> found;
    for (const PolicyRule& rule : policy_.rules) {
      judge_rule(rule, &base, head, Listing::changes, found);
    }
    std::sort(found.begin(), found.end(),
              [](const Finding& a, const Finding& b) { return quantity(a) < quantity(b); });
    std::move(found.begin(), found.end(), std::back_inserter(comparison_.findings));
  }

  /// Adds a change of a status.
  Finding& add(ChangeKind kind, Verdict verdict, const std::string& id, std::string_view base,
               std::string_view head, ExitCode code) {
    return comparison_.findings.emplace_back(
        Finding{.verdict = verdict,
                .kind = kind,
                .metric = kind == ChangeKind::coverage ? "coverage" : "status",
                .id = id,
                .base = std::string(base),
                .head = std::string(head),
                .code = code});
  }

  /// Adds a trial or row that did not run in HEAD; counts it where a dead HEAD did not reach it.
  void lose(const Subject& subject, const std::string& id, std::string_view base,
            std::string_view head, std::int64_t& not_reached) {
    if (is_dead_ && (head == "not there" || head == name(TrialStatus::not_run))) {
      ++not_reached;
      return;
    }
    add(ChangeKind::coverage, Verdict::failed, id, base, head, ExitCode::correctness).subject =
        subject;
  }

  void end_in_the_middle() {
    const DeadRun dead = how_it_died(head_);
    comparison_.dead_head_code = dead.code;
    comparison_.dead_head = "HEAD did not come to its end" + dead.text;
    if (trials_not_reached_ + rows_not_reached_ == 0) return;
    comparison_.dead_head += fmt::format(": {} trials and {} timed rows of BASE were not reached",
                                         trials_not_reached_, rows_not_reached_);
  }

  const RunRecord& base_;
  const RunRecord& head_;
  const bool is_dead_;  // HEAD did not come to its end
  const Policy policy_;
  std::int64_t trials_not_reached_ = 0;
  std::int64_t rows_not_reached_ = 0;
  Comparison comparison_;
};

}  // namespace

Comparison compare_reports(const RunRecord& base, const RunRecord& head, double time_margin_ratio) {
  return Comparer(base, head, time_margin_ratio).compare();
}

ExitCode exit_code_of(const Comparison& comparison, bool strict) {
  return worst(comparison.dead_head_code, exit_code_of(comparison.findings, strict));
}

}  // namespace lossgrid
