// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/hunt.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/hunt/failing_trial.h"
#include "harness/hunt/failure_groups.h"
#include "harness/hunt/implementation_draw.h"
#include "harness/hunt/pair_coverage.h"
#include "harness/hunt/shrink.h"
#include "harness/hunt/supported_settings.h"
#include "harness/hunt/taken_grids.h"
#include "harness/loss/registry.h"
#include "harness/runner/run.h"

namespace lossgrid {
namespace {

constexpr std::size_t kCandidates = 3;        // of which the one with the most new pairs is taken
constexpr std::size_t kDraws = 24;            // for these
constexpr std::int64_t kExploredCases = 4;    // one of so many
constexpr std::size_t kImplementations = 3;   // of a case
constexpr int kMostShrunk = 40;               // trials that are made smaller
constexpr std::int64_t kMostIdleCases = 200;  // of which no trial ran

struct DrawnCase {
  CaseSpec spec;
  std::vector<Grid> grids;
  std::vector<std::string> implementations;
  std::vector<Setting> settings;
  bool is_refused = false;  // no implementation takes it on any of the grids
};

/// Leaves out implementations that take the case on none of the grids, and grids on which none
/// takes it. A case that would have nothing left stays as it is.
void leave_out_refused(DrawnCase& drawn) {
  std::vector<std::string> taking;
  std::vector<Grid> taken;
  for (const std::string& implementation : drawn.implementations) {
    const std::vector<Grid> grids = taken_grids(implementation, drawn.spec, drawn.grids);
    if (!grids.empty()) taking.push_back(implementation);
    taken.insert(taken.end(), grids.begin(), grids.end());
  }
  drawn.is_refused = taking.empty();
  if (drawn.is_refused) return;
  drawn.implementations = std::move(taking);
  std::erase_if(drawn.grids, [&](const Grid& grid) {
    return std::find(taken.begin(), taken.end(), grid) == taken.end();
  });
}

std::vector<Setting> settings_on(const CaseSpec& spec, const std::vector<Grid>& grids) {
  std::vector<Setting> settings = settings_of(spec, grids.front());
  for (std::size_t k = 1; k < grids.size(); ++k) {
    for (Setting& setting : settings_of(spec, grids[k])) {
      const bool is_known = std::any_of(settings.begin(), settings.end(),
                                        [&](const Setting& s) { return s.label == setting.label; });
      if (!is_known) settings.push_back(std::move(setting));
    }
  }
  return settings;
}

DrawnRecord record_of(const DrawnCase& drawn) {
  DrawnRecord record{format_case(drawn.spec), {}, drawn.implementations, {}};
  for (const Grid& grid : drawn.grids) record.grids.push_back(format_grid(grid));
  return record;
}

}  // namespace

class Hunt::State {
 public:
  State(HuntOptions options, std::function<void(const HuntProgress&)> progress)
      : options_(std::move(options)),
        report_progress_(std::move(progress)),
        limits_(options_.limits),
        implementations_(options_.implementations),
        shrinker_(options_.run, options_.backend, options_.shrink_seconds) {
    for (const std::string& kind : limits_.objectives) find_objective(kind);
    limits_.from_logits = limits_.from_logits && implementations_.any_from_logits();
    limits_.from_hidden = limits_.from_hidden && implementations_.any_from_hidden();
    out_.record.seed = options_.seed;
  }

  bool next() {
    const DrawnCase drawn = draw();
    run_case(drawn);
    report_progress_(progress_);
    out_.record.end = reason_to_end();
    if (!out_.record.end.empty()) take_deciding();
    return out_.record.end.empty();
  }

  HuntOutcome outcome(const std::string& end) const {
    HuntOutcome out = out_;
    if (out.record.end.empty()) out.record.end = end;
    out.record.seconds = seconds();
    out.record.found = groups_.records();
    for (const auto& [kinds, count] : coverage_.by_kinds()) {
      out.record.pairs.push_back(
          {name(kinds.first), name(kinds.second), count.drawn, count.decided});
    }
    return out;
  }

 private:
  /// Returns the candidate with the most pairs that have not decided. Candidates with a setting
  /// that nothing seems to support are drawn again.
  DrawnCase draw() {
    // Some cases have such settings nevertheless: the cases that did not run may have had others.
    const bool is_explored = progress_.cases % kExploredCases == 0;
    DrawnCase best;
    std::int64_t most = -1;
    std::size_t candidates = 0;
    for (std::size_t k = 0; k < kDraws && candidates < kCandidates; ++k) {
      DrawnCase drawn = draw_candidate(k);
      const bool seems_refused =
          drawn.is_refused || (!is_explored && supported_.refuses_any(drawn.settings));
      if (seems_refused && k + 1 < kDraws) continue;
      ++candidates;
      const std::int64_t open = coverage_.open_pairs(drawn.settings);
      if (open <= most) continue;
      most = open;
      best = std::move(drawn);
    }
    return best;
  }

  DrawnCase draw_candidate(std::size_t number) {
    Dice dice(options_.seed, static_cast<std::uint64_t>(progress_.cases) * kDraws + number);
    DrawnCase drawn;
    drawn.spec = draw_case(dice, limits_);
    drawn.grids = {draw_grid(dice, drawn.spec, limits_)};
    const Grid other = draw_grid(dice, drawn.spec, limits_);
    if (other != drawn.grids.front()) drawn.grids.push_back(other);
    drawn.implementations = implementations_.draw(dice, drawn.spec, kImplementations);
    leave_out_refused(drawn);
    drawn.settings = settings_on(drawn.spec, drawn.grids);
    return drawn;
  }

  void run_case(const DrawnCase& drawn) {
    ++progress_.cases;
    ++out_.record.cases;
    out_.record.drawn.push_back(record_of(drawn));
    Suite suite;
    suite.name = "hunt";
    suite.cases = {drawn.spec};
    suite.grids = drawn.grids;
    suite.implementations = drawn.implementations;
    suite.backend = options_.backend;
    failing_.clear();
    bad_trials_.clear();
    ran_ = false;
    ProblemCache problems;
    try {
      out_.must_end = run_suites({suite}, options_.run, problems, [&](const TrialRecord& trial) {
        take(drawn, trial);
        return true;
      });
      take_deciding();
      if (ran_ && coverage_.open_pairs(drawn.settings) > 0) find_deciding(drawn);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_input) throw;
      ++out_.record.refused;
      out_.record.drawn.back().refusal = error.what();
    }
    supported_.learn(drawn.settings, ran_);
    idle_cases_ = ran_ ? 0 : idle_cases_ + 1;
    if (idle_cases_ >= kMostIdleCases) {
      throw_bad_input(
          "{} cases in a row were drawn of which no implementation supports any; the last reason: "
          "{}",
          kMostIdleCases, last_reason_);
    }
    const std::vector<FailingTrial> failing = shared(failing_);
    bad_trials_.resize(failing.size());  // where this process does not report, it has none
    for (std::size_t k = 0; k < failing.size(); ++k) group(failing[k], bad_trials_[k]);
  }

  /// Begins to look for the settings of a case that decide, on a thread beside the trials of the
  /// next case: trials of small cases leave cores idle. Behind these trials they are counted.
  void find_deciding(const DrawnCase& drawn) {
    deciding_ = std::async(std::launch::async, [spec = drawn.spec, settings = drawn.settings] {
      return std::pair(settings, deciding_settings(spec, settings));
    });
  }

  /// Counts the pairs that decide of the case before, if they were looked for.
  void take_deciding() {
    if (!deciding_.valid()) return;
    const auto [settings, deciding] = deciding_.get();
    coverage_.add(settings, deciding);
  }

  /// Counts a trial of the case.
  void take(const DrawnCase& drawn, const TrialRecord& trial) {
    implementations_.learn(drawn.spec, trial);
    if (trial.status == TrialStatus::skipped) {
      ++out_.record.skipped;
      last_reason_ = trial.reason;
      return;
    }
    ran_ = true;
    ++progress_.trials;
    if (!is_bad(trial.status)) {
      ++out_.record.passed;
      return;
    }
    ++out_.record.bad;
    ++progress_.bad;
    std::vector<Grid> grids;
    for (const Grid& grid : drawn.grids) {
      grids.push_back(grid);
      if (format_grid(grid) == trial.grid()) break;
    }
    // The checks behind the first one fail by the same mistake.
    failing_.push_back({drawn.spec, trial.implementation, grids, names_of_failure(trial).front()});
    bad_trials_.push_back(trial);
  }

  /// Returns the failing trials that the reporting process found, on all processes.
  std::vector<FailingTrial> shared(const std::vector<FailingTrial>& own) const {
    std::vector<std::string> lines;
    for (const FailingTrial& trial : own) {
      std::vector<std::string> grids;
      for (const Grid& grid : trial.grids) grids.push_back(format_grid(grid));
      lines.push_back(format_case(trial.spec) + '\t' + trial.implementation + '\t' +
                      join(grids, ",") + '\t' + trial.check);
    }
    const std::string text = options_.run.ranks.share_of_reporter(join(lines, "\n"));
    std::vector<FailingTrial> all;
    if (text.empty()) return all;
    for (const std::string& line : split(text, '\n')) {
      const std::vector<std::string> parts = split(line, '\t');
      FailingTrial trial{parse_case(parts[0]), parts[1], {}, parts[3]};
      for (const std::string& grid : split(parts[2], ',')) trial.grids.push_back(parse_grid(grid));
      all.push_back(std::move(trial));
    }
    return all;
  }

  /// Counts a failing trial with its cause. `record`: of the trial.
  void group(const FailingTrial& trial, const TrialRecord& record) {
    if (groups_.count(trial)) return;
    FoundRecord found;
    found.first = reproduce(trial, options_.backend);
    Shrunk smallest{trial, record, out_.must_end};
    found.is_shrunk = !out_.must_end && shrunk_++ < kMostShrunk;
    if (found.is_shrunk) {
      progress_.is_shrinking = true;
      report_progress_(progress_);
      smallest = shrinker_.shrink(trial);
      progress_.is_shrinking = false;
      out_.must_end = smallest.must_end;
    }
    found.smallest = format_case(smallest.trial.spec);
    for (const Grid& grid : smallest.trial.grids) found.grids.push_back(format_grid(grid));
    found.reason = smallest.record.reason;
    found.reproduce = reproduce(smallest.trial, options_.backend);
    const std::size_t known = groups_.size();
    groups_.add(trial, smallest.trial, std::move(found));
    if (groups_.size() > known) out_.bad_trials.push_back(smallest.record);
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  /// Returns "" while the hunt goes on. Collective.
  std::string reason_to_end() const {
    if (out_.must_end) return "hang";
    if (options_.until_failure && groups_.size() > 0) return "failure";
    if (options_.cases && progress_.cases >= *options_.cases) return "cases";
    const Ranks& ranks = options_.run.ranks;
    const bool is_over = options_.seconds && seconds() >= *options_.seconds;
    return ranks.agree_on_any(ranks.reports() && is_over) ? "seconds" : "";
  }

  const HuntOptions options_;
  const std::function<void(const HuntProgress&)> report_progress_;
  DrawLimits limits_;
  ImplementationDraw implementations_;
  Shrinker shrinker_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  PairCoverage coverage_;
  std::future<std::pair<std::vector<Setting>, std::vector<Setting>>> deciding_;  // of a case before
  SupportedSettings supported_;
  FailureGroups groups_;
  HuntProgress progress_;
  HuntOutcome out_;
  std::vector<FailingTrial> failing_;    // of the last case
  std::vector<TrialRecord> bad_trials_;  // their records
  bool ran_ = false;                     // a trial of the last case
  int shrunk_ = 0;
  std::int64_t idle_cases_ = 0;
  std::string last_reason_;
};

Hunt::Hunt(HuntOptions options, std::function<void(const HuntProgress&)> progress)
    : state_(std::make_unique<State>(std::move(options), std::move(progress))) {}

Hunt::~Hunt() = default;

bool Hunt::next() {
  return state_->next();
}

HuntOutcome Hunt::outcome(const std::string& end) const {
  return state_->outcome(end);
}

}  // namespace lossgrid
