// SPDX-License-Identifier: Apache-2.0
#include "reports/change/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "reports/change/compare_notes.h"
#include "reports/change/relative_time.h"

namespace lossgrid {
namespace {

bool is_bad(TrialStatus status) {
  return status == TrialStatus::failed || was_cut_short(status);
}

bool has_verdict(TrialStatus status) {
  return is_bad(status) || status == TrialStatus::passed;
}

std::string count_text(std::int64_t count) {
  return std::to_string(count);
}

/// What is counted in a trial, by what it is called.
using Counters = std::map<std::pair<ChangeKind, std::string>, std::int64_t>;

Counters counters_of(const TrialRecord& trial) {
  Counters counters;
  for (const PhaseMemoryRecord& memory : trial.memory) {
    const std::string place = fmt::format("rank {} {}: ", memory.rank, memory.phase);
    counters[{ChangeKind::memory, place + "peak bytes"}] = memory.measured_peak_bytes;
    counters[{ChangeKind::memory, place + "allocations"}] = memory.measured_allocations;
  }
  for (const CommunicationRecord& of : trial.communication) {
    const std::string place = fmt::format("{} {}: {} ", of.phase, of.group, of.operation);
    counters[{ChangeKind::communication, place + "calls"}] = of.measured_calls;
    counters[{ChangeKind::communication, place + "payload bytes"}] = of.measured_payload_bytes;
  }
  return counters;
}

class Comparer {
 public:
  /// `is_dead`: HEAD did not come to its end, so that what is not there was not reached.
  Comparer(double margin, bool is_dead) : is_dead_(is_dead) {
    comparison_.time_margin_ratio = margin;
  }

  void compare_trials(const std::vector<TrialRecord>& base, const std::vector<TrialRecord>& head) {
    std::map<std::string, const TrialRecord*> by_id;
    for (const TrialRecord& trial : head) by_id[trial.id] = &trial;
    std::map<std::string, const TrialRecord*> in_base;
    for (const TrialRecord& trial : base) {
      if (!in_base.emplace(trial.id, &trial).second) continue;
      const auto found = by_id.find(trial.id);
      if (found == by_id.end()) {
        if (has_verdict(trial.status)) miss(trial.id, std::string(name(trial.status)), trials_);
        continue;
      }
      ++comparison_.trials;
      compare_trial(trial, *found->second);
    }
    for (const auto& [id, trial] : by_id) {
      if (!in_base.contains(id)) add_trial(*trial);
    }
  }

  void compare_timings(const std::vector<TimingRecord>& base,
                       const std::vector<TimingRecord>& head) {
    const auto rows = [](const std::vector<TimingRecord>& timings) {
      std::map<std::string, std::pair<const TimingRecord*, const TimingRow*>> found;
      for (const TimingRecord& timing : timings) {
        for (const TimingRow& row : timing.rows) {
          found.emplace(row_id(timing, row), std::pair(&timing, &row));
        }
      }
      return found;
    };
    std::map<std::string, const TimingRecord*> cut_short;
    for (const TimingRecord& timing : head) {
      if (was_cut_short(timing.status)) cut_short[timing.id()] = &timing;
    }
    std::string last_cut_short;
    const auto in_head = rows(head);
    for (const auto& [id, of_base] : rows(base)) {
      const auto found = in_head.find(id);
      const auto dead = cut_short.find(of_base.first->id());
      if (dead != cut_short.end()) {  // of all its rows one change
        ++comparison_.rows;
        if (std::exchange(last_cut_short, dead->first) != dead->first) end_timing(*dead->second);
        continue;
      }
      if (found == in_head.end()) {
        miss(id, "timed", rows_);
        continue;
      }
      ++comparison_.rows;
      compare_row(id, *of_base.first, *of_base.second, *found->second.first, *found->second.second);
    }
  }

  /// ": 3 trials and 2 timed rows of BASE not reached", or nothing.
  std::string not_reached() const {
    if (trials_ + rows_ == 0) return "";
    return fmt::format(": {} trials and {} timed rows of BASE were not reached", trials_, rows_);
  }

  Comparison take() {
    std::stable_sort(comparison_.changes.begin(), comparison_.changes.end(),
                     [](const Change& a, const Change& b) {
                       return std::tie(a.verdict, a.kind) < std::tie(b.verdict, b.kind);
                     });
    return std::move(comparison_);
  }

 private:
  /// HEAD does not have it.
  void miss(const std::string& subject, const std::string& base, std::int64_t& not_reached) {
    if (is_dead_) {
      ++not_reached;
    } else {
      lose(subject, base, "not there");
    }
  }

  void lose(const std::string& subject, const std::string& base, const std::string& head) {
    comparison_.changes.push_back({ChangeKind::coverage,
                                   ChangeVerdict::regressed,
                                   subject,
                                   "status",
                                   base,
                                   head,
                                   {},
                                   {},
                                   {},
                                   ExitCode::correctness});
  }

  void end_timing(const TimingRecord& head) {
    comparison_.changes.push_back({ChangeKind::verdict,
                                   ChangeVerdict::regressed,
                                   head.id(),
                                   "status",
                                   "timed",
                                   fmt::format("{}: {}", name(head.status), head.reason),
                                   {},
                                   {},
                                   {},
                                   exit_code_of(head.status)});
  }

  void add_trial(const TrialRecord& trial) {
    if (!has_verdict(trial.status)) return;
    comparison_.changes.push_back(
        {ChangeKind::verdict,
         is_bad(trial.status) ? ChangeVerdict::regressed : ChangeVerdict::added,
         trial.id,
         "status",
         "not there",
         std::string(name(trial.status)),
         {},
         {},
         {},
         exit_code_of(trial)});
  }

  void compare_trial(const TrialRecord& base, const TrialRecord& head) {
    if (has_verdict(base.status) && is_dead_ && head.status == TrialStatus::not_run) {
      ++trials_;
      return;
    }
    if (has_verdict(base.status) && !has_verdict(head.status)) {
      lose(base.id, std::string(name(base.status)), std::string(name(head.status)));
      return;
    }
    if (is_bad(base.status) != is_bad(head.status)) {
      comparison_.changes.push_back(
          {ChangeKind::verdict,
           is_bad(head.status) ? ChangeVerdict::regressed : ChangeVerdict::improved,
           base.id,
           "status",
           std::string(name(base.status)),
           std::string(name(head.status)) + (head.reason.empty() ? "" : ": " + head.reason),
           {},
           {},
           {},
           exit_code_of(head)});
    }
    if (was_cut_short(base.status) || was_cut_short(head.status)) return;  // they counted nothing
    const Counters before = counters_of(base);
    for (const auto& [what, count] : counters_of(head)) {
      const auto found = before.find(what);
      const std::int64_t earlier = found == before.end() ? 0 : found->second;
      if (count != earlier) add_counter(base.id, what, earlier, count);
    }
  }

  void add_counter(const std::string& id, const std::pair<ChangeKind, std::string>& what,
                   std::int64_t base, std::int64_t head) {
    std::optional<double> ratio;
    if (base > 0) ratio = static_cast<double>(head) / static_cast<double>(base);
    comparison_.changes.push_back({what.first,
                                   head > base ? ChangeVerdict::regressed : ChangeVerdict::improved,
                                   id,
                                   what.second,
                                   count_text(base),
                                   count_text(head),
                                   ratio,
                                   {},
                                   {},
                                   ExitCode::cost_regression});
  }

  void compare_row(const std::string& id, const TimingRecord& base, const TimingRow& base_row,
                   const TimingRecord& head, const TimingRow& head_row) {
    const std::optional<RelativeTime> before = relative_time(base, base_row);
    const std::optional<RelativeTime> now = relative_time(head, head_row);
    if (base_row.status < TimingStatus::above_ceiling &&
        head_row.status >= TimingStatus::above_ceiling) {
      comparison_.changes.push_back({ChangeKind::time,
                                     ChangeVerdict::regressed,
                                     id,
                                     "status",
                                     std::string(name(base_row.status)),
                                     std::string(name(head_row.status)),
                                     {},
                                     {},
                                     {},
                                     ExitCode::time_regression});
      return;
    }
    if (!before || !now || before->reference != now->reference) return;
    constexpr double kStandardErrors = 2;
    const double ratio = now->ratio / before->ratio;
    const double spread =
        std::exp(kStandardErrors * std::hypot(before->stderr_ratio, now->stderr_ratio));
    const double low = ratio / spread;
    const double high = ratio * spread;
    const double limit = 1 + comparison_.time_margin_ratio;
    ChangeVerdict verdict = ChangeVerdict::inconclusive;
    if (low > limit) {
      verdict = ChangeVerdict::regressed;
    } else if (high < 1 / limit) {
      verdict = ChangeVerdict::improved;
    } else if (high < limit) {
      return;
    }
    comparison_.changes.push_back({ChangeKind::time, verdict, id, "time over " + now->reference,
                                   fmt::format("{:.3f}", before->ratio),
                                   fmt::format("{:.3f}", now->ratio), ratio, low, high,
                                   ExitCode::time_regression});
  }

  const bool is_dead_;
  std::int64_t trials_ = 0;  // not reached
  std::int64_t rows_ = 0;
  Comparison comparison_;
};

}  // namespace

std::string_view name(ChangeKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"coverage", "verdict", "memory", "communication",
                                                   "time"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(ChangeVerdict verdict) {
  constexpr std::array<std::string_view, 4> kNames{"regressed", "inconclusive", "improved",
                                                   "added"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string row_id(const TimingRecord& timing, const TimingRow& row) {
  return fmt::format("{}|{}|{}", timing.id(), row.implementation, row.phase);
}

std::int64_t Comparison::count(ChangeVerdict verdict) const {
  return std::count_if(changes.begin(), changes.end(),
                       [verdict](const Change& change) { return change.verdict == verdict; });
}

Comparison compare_reports(const RunRecord& base, const RunRecord& head, double time_margin_ratio) {
  const bool is_dead = head.status != "complete";
  Comparer comparer(time_margin_ratio, is_dead);
  comparer.compare_trials(base.trials, head.trials);
  comparer.compare_timings(base.timings, head.timings);
  const std::string not_reached = comparer.not_reached();
  Comparison comparison = comparer.take();
  comparison.notes = comparison_notes(base, head);
  if (is_dead) {
    const DeadRun dead = how_it_died(head);
    comparison.dead_head = "HEAD did not come to its end" + dead.text + not_reached;
    comparison.dead_head_code = dead.code;
  } else if (comparison.trials == 0 && comparison.rows == 0) {
    throw_bad_input("the reports have no trial and no timed row in common");
  }
  return comparison;
}

ExitCode exit_code_of(const Comparison& comparison, bool strict) {
  ExitCode code = comparison.dead_head_code;
  for (const Change& change : comparison.changes) {
    if (change.verdict == ChangeVerdict::inconclusive && strict) {
      code = worst(code, ExitCode::inconclusive);
    }
    if (change.verdict == ChangeVerdict::regressed) code = worst(code, change.code);
  }
  return code;
}

}  // namespace lossgrid
