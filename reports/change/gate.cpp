// SPDX-License-Identifier: Apache-2.0
#include "reports/change/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "harness/core/text.h"
#include "reports/change/compare.h"
#include "reports/change/gate_statuses.h"

namespace lossgrid {
namespace {

constexpr double kStandardErrors = 2;

/// How many times worse `head` is than `base`; 1: as good.
double worsening(Direction better, double base, double head) {
  const auto quotient = [](double a, double b) {
    if (a == b) return 1.0;
    return b == 0 ? std::numeric_limits<double>::infinity() : a / b;
  };
  if (better == Direction::lower) return quotient(head, base);
  if (better == Direction::higher) return quotient(base, head);
  return std::max(quotient(head, base), quotient(base, head));
}

/// `worse` times less or more certain; more than `most` fails.
std::optional<GateVerdict> verdict_of(double worse, double spread, double most) {
  if (worse / spread > most) return GateVerdict::failed;
  if (worse * spread > most) return GateVerdict::inconclusive;
  return std::nullopt;
}

std::optional<GateVerdict> verdict_of_limit(Direction better, const Measurement& head,
                                            double limit) {
  const double spread = std::exp(kStandardErrors * head.stderr_ratio);
  if (better == Direction::lower) return verdict_of(head.value, spread, limit);
  // Mirrored: `spread` times less is the certain side.
  if (better == Direction::higher) return verdict_of(-head.value, 1 / spread, -limit);
  return head.value == limit ? std::nullopt : std::optional(GateVerdict::failed);
}

std::string bound_text(Direction better, double tolerance_ratio) {
  const std::string percent = fmt::format("{:.3g} %", 100 * tolerance_ratio);
  if (better == Direction::equal && tolerance_ratio == 0) return "the same";
  if (better == Direction::equal) return "at most " + percent + " off";
  if (tolerance_ratio == 0) return better == Direction::lower ? "no more" : "no less";
  return fmt::format("at most {} {}", percent, better == Direction::lower ? "more" : "less");
}

std::string limit_text(Direction better, double limit) {
  constexpr std::array<std::string_view, 3> kNames{"at most", "at least", "exactly"};
  return fmt::format("{} {}", kNames[static_cast<std::size_t>(better)], format_number(limit));
}

class Judge {
 public:
  Judge(const RunRecord* base, const RunRecord& head) : base_(base), head_(head) {}

  GateResult judge(const Policy& policy, const std::string& today) {
    result_.findings = status_findings(base_, head_);
    for (std::size_t k = 0; k < policy.rules.size(); ++k) {
      judge_rule(policy.rules[k], fmt::format("rule {} ({})", k, policy.rules[k].metric));
    }
    for (std::size_t k = 0; k < policy.known_issues.size(); ++k) {
      excuse(policy.known_issues[k], fmt::format("known issue {}", k), today);
    }
    std::stable_sort(
        result_.findings.begin(), result_.findings.end(),
        [](const GateFinding& a, const GateFinding& b) { return a.verdict < b.verdict; });
    return std::move(result_);
  }

 private:
  using Key = std::array<std::string, 3>;

  static Key key_of(const Measurement& m) { return {m.of, m.subject.phase, m.place}; }

  void judge_rule(const PolicyRule& rule, const std::string& name_of_rule) {
    if (rule.tolerance_ratio && base_ == nullptr) {
      throw Error(ErrorCode::usage, name_of_rule + " has a tolerance_ratio, which needs BASE");
    }
    const ReportMetric& metric = find_metric(rule.metric);
    std::vector<Measurement> measured = measured_by(rule, metric, head_);
    std::int64_t matches = static_cast<std::int64_t>(measured.size());
    if (rule.limit) {
      for (const Measurement& head : measured) judge_limit(rule, metric, head);
    }
    if (rule.tolerance_ratio) matches = judge_growth(rule, metric, measured);
    if (matches == 0) result_.notes.push_back(name_of_rule + " matches nothing");
    result_.judged += matches;
  }

  static std::vector<Measurement> measured_by(const PolicyRule& rule, const ReportMetric& metric,
                                              const RunRecord& run) {
    std::vector<Measurement> measured = metric.measurements(run);
    std::erase_if(measured,
                  [&](const Measurement& m) { return !rule.subjects.matches(m.subject); });
    return measured;
  }

  void judge_limit(const PolicyRule& rule, const ReportMetric& metric, const Measurement& head) {
    const auto verdict = verdict_of_limit(rule.better, head, *rule.limit);
    if (!verdict) return;
    add(*verdict, metric, head, "-", format_number(head.value),
        limit_text(rule.better, *rule.limit));
  }

  /// Returns how many are in both.
  std::int64_t judge_growth(const PolicyRule& rule, const ReportMetric& metric,
                            std::vector<Measurement> measured) {
    std::vector<Measurement> before = measured_by(rule, metric, *base_);
    if (metric.is_counter) {
      add_zeros(measured, before, head_);
      add_zeros(before, measured, *base_);
    }
    std::map<Key, Measurement> in_base;
    for (const Measurement& base : before) in_base.emplace(key_of(base), base);
    std::int64_t matches = 0;
    for (const Measurement& head : measured) {
      const auto base = in_base.find(key_of(head));
      if (base == in_base.end()) continue;
      ++matches;
      const double spread =
          std::exp(kStandardErrors * std::hypot(base->second.stderr_ratio, head.stderr_ratio));
      const double worse = worsening(rule.better, base->second.value, head.value);
      const auto verdict = verdict_of(worse, spread, 1 + *rule.tolerance_ratio);
      if (!verdict) continue;
      add(*verdict, metric, head, format_number(base->second.value), format_number(head.value),
          bound_text(rule.better, *rule.tolerance_ratio));
    }
    return matches;
  }

  /// What `other` counted of a trial that ended in `run` too, and `run` did not, is 0 there.
  static void add_zeros(std::vector<Measurement>& measured, const std::vector<Measurement>& other,
                        const RunRecord& run) {
    std::set<std::string> ended;
    for (const TrialRecord& trial : run.trials) {
      if (has_counts(trial.status)) ended.insert(trial.id);
    }
    std::set<Key> known;
    for (const Measurement& m : measured) known.insert(key_of(m));
    for (const Measurement& m : other) {
      if (!ended.contains(m.of) || !known.insert(key_of(m)).second) continue;
      measured.push_back(m);
      measured.back().value = 0;
    }
  }

  void add(GateVerdict verdict, const ReportMetric& metric, const Measurement& measurement,
           std::string base, std::string head, std::string bound) {
    result_.findings.push_back({verdict, metric.name, measurement.subject, measurement.place,
                                std::move(base), std::move(head), std::move(bound), "",
                                metric.worse});
  }

  void excuse(const KnownIssue& issue, const std::string& name_of_issue, const std::string& today) {
    if (issue.until < today) {
      result_.notes.push_back(fmt::format("{} expired on {} and excuses nothing: {}", name_of_issue,
                                          issue.until, issue.reason));
      return;
    }
    bool any = false;
    for (GateFinding& finding : result_.findings) {
      if (!issue.metric.empty() && issue.metric != finding.metric) continue;
      if (!issue.subjects.matches(finding.subject)) continue;
      any = true;
      if (finding.verdict == GateVerdict::excused) continue;
      finding.verdict = GateVerdict::excused;
      finding.excuse = fmt::format("{} (until {})", issue.reason, issue.until);
    }
    if (!any) {
      result_.notes.push_back(
          fmt::format("{} has nothing to excuse: {}", name_of_issue, issue.reason));
    }
  }

  const RunRecord* base_;
  const RunRecord& head_;
  GateResult result_;
};

}  // namespace

std::string_view name(GateVerdict verdict) {
  constexpr std::array<std::string_view, 3> kNames{"failed", "inconclusive", "excused"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::int64_t GateResult::count(GateVerdict verdict) const {
  return std::count_if(findings.begin(), findings.end(),
                       [verdict](const GateFinding& f) { return f.verdict == verdict; });
}

GateResult judge(const RunRecord* base, const RunRecord& head, const Policy& policy,
                 const std::string& today) {
  return Judge(base, head).judge(policy, today);
}

ExitCode exit_code_of(const GateResult& result, bool strict) {
  ExitCode code = ExitCode::ok;
  for (const GateFinding& finding : result.findings) {
    if (finding.verdict == GateVerdict::failed) code = worst(code, finding.code);
  }
  const bool unclear = result.count(GateVerdict::inconclusive) > 0 || !result.notes.empty();
  return strict && unclear ? worst(code, ExitCode::inconclusive) : code;
}

}  // namespace lossgrid
