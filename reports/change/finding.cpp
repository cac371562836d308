// SPDX-License-Identifier: Apache-2.0
#include "reports/change/finding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr double kStandardErrors = 2;

/// Returns the factor by which `head` is worse than `base`; 1: as good.
double worsening(Direction better, double base, double head) {
  const auto quotient = [](double a, double b) {
    if (a == b) return 1.0;
    return b == 0 ? std::numeric_limits<double>::infinity() : a / b;
  };
  if (better == Direction::lower) return quotient(head, base);
  if (better == Direction::higher) return quotient(base, head);
  return std::max(quotient(head, base), quotient(base, head));
}

/// Judges a number that is certain up to the factor `spread`; above `most` fails.
std::optional<Verdict> verdict_of(double worse, double spread, double most) {
  if (worse / spread > most) return Verdict::failed;
  if (worse * spread > most) return Verdict::inconclusive;
  return std::nullopt;
}

std::optional<Verdict> verdict_of_limit(Direction better, const Measurement& head, double limit) {
  const double spread = std::exp(kStandardErrors * head.stderr_ratio);
  if (better == Direction::lower) return verdict_of(head.value, spread, limit);
  // Mirrored: `spread` times less is the certain side.
  if (better == Direction::higher) return verdict_of(-head.value, 1 / spread, -limit);
  return head.value == limit ? std::nullopt : std::optional(Verdict::failed);
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

std::vector<Measurement> measured_by(const PolicyRule& rule, const ReportMetric& metric,
                                     const Selection& selection) {
  std::vector<Measurement> measured = metric.measurements(selection);
  std::erase_if(measured, [&](const Measurement& m) { return !rule.subjects.matches(m.subject); });
  return measured;
}

using Key = std::array<std::string_view, 3>;

/// Refers to `m`.
Key key_of(const Measurement& m) {
  return {m.id, m.subject.phase, m.place};
}

std::set<std::string_view> ids_of(const std::vector<const TrialRecord*>& trials) {
  std::set<std::string_view> ids;
  for (const TrialRecord* trial : trials) ids.insert(trial->id);
  return ids;
}

/// A number of both reports.
struct Pair {
  const Measurement& named;  // that of HEAD; of BASE for a counter that HEAD does not have
  double base = 0;
  double head = 0;
  double spread = 1;  // factor of two standard errors, up or down, of head / base
  bool is_gone = false;
};

/// Pairs numbers in the order of HEAD. A counter that a selected trial does not have is 0 there.
std::vector<Pair> pairs_of(bool are_counters, const Selection& base, const Selection& head,
                           const std::vector<Measurement>& before,
                           const std::vector<Measurement>& now) {
  std::map<Key, const Measurement*> in_base;
  for (const Measurement& m : before) in_base.emplace(key_of(m), &m);
  const std::set<std::string_view> base_trials = ids_of(base.trials);
  std::vector<Pair> pairs;
  std::set<Key> in_head;
  for (const Measurement& m : now) {
    in_head.insert(key_of(m));
    const auto found = in_base.find(key_of(m));
    if (found != in_base.end()) {
      const double stderr_ratio = std::hypot(found->second->stderr_ratio, m.stderr_ratio);
      pairs.push_back({.named = m,
                       .base = found->second->value,
                       .head = m.value,
                       .spread = std::exp(kStandardErrors * stderr_ratio)});
    } else if (are_counters && base_trials.contains(m.id)) {
      pairs.push_back({.named = m, .head = m.value});
    }
  }
  if (!are_counters) return pairs;
  const std::set<std::string_view> head_trials = ids_of(head.trials);
  for (const Measurement& m : before) {
    if (!head_trials.contains(m.id) || !in_head.insert(key_of(m)).second) continue;
    pairs.push_back({.named = m, .base = m.value, .is_gone = true});
  }
  return pairs;
}

/// Formats exact counts and three decimals of times for a list of changes, else the shortest form.
std::string value_text(const ReportMetric& metric, double value, Listing listing) {
  if (listing == Listing::failures) return format_number(value);
  if (metric.is_counter()) return std::to_string(static_cast<std::int64_t>(value));
  return fmt::format("{:.3f}", value);
}

std::optional<Verdict> verdict_of_pair(const PolicyRule& rule, const ReportMetric& metric,
                                       const Pair& pair, Listing listing) {
  const double most = 1 + *rule.tolerance_ratio;
  const double worse = worsening(rule.better, pair.base, pair.head);
  const auto verdict = verdict_of(worse, pair.spread, most);
  if (verdict || listing == Listing::failures) return verdict;
  if (!metric.is_counter() && worse * pair.spread == most) return Verdict::inconclusive;
  if (!pair.is_gone && worse * pair.spread < 1 / most) return Verdict::improved;
  return std::nullopt;
}

}  // namespace

std::string_view name(Verdict verdict) {
  constexpr std::array<std::string_view, 5> kNames{"failed", "inconclusive", "excused", "improved",
                                                   "added"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string with_reason(std::string_view status, const std::string& reason) {
  return std::string(status) + (reason.empty() ? "" : ": ") + reason;
}

std::string quantity(const Finding& finding) {
  std::string metric = finding.metric;
  std::replace(metric.begin(), metric.end(), '_', ' ');
  const std::string& phase = finding.subject.phase;
  if (finding.kind == ChangeKind::memory) {
    return fmt::format("{} {}: {}", finding.place, phase, metric);
  }
  if (finding.kind == ChangeKind::communication) {
    return fmt::format("{} {} {}", phase, finding.place, metric);
  }
  if (finding.metric != "time_ratio") return "status";
  return "time " + finding.place.substr(finding.place.find("over "));  // without the cache
}

std::int64_t count(const std::vector<Finding>& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(),
                       [verdict](const Finding& finding) { return finding.verdict == verdict; });
}

ExitCode exit_code_of(const std::vector<Finding>& findings, bool strict) {
  ExitCode code = ExitCode::ok;
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::failed) code = worst(code, finding.code);
    if (finding.verdict == Verdict::inconclusive && strict) {
      code = worst(code, ExitCode::inconclusive);
    }
  }
  return code;
}

std::int64_t judge_rule(const PolicyRule& rule, const Selection* base, const Selection& head,
                        Listing listing, std::vector<Finding>& findings) {
  const ReportMetric& metric = find_metric(rule.metric);
  const auto add = [&](Verdict verdict, const Measurement& named, double value) -> Finding& {
    return findings.emplace_back(Finding{.verdict = verdict,
                                         .kind = metric.kind,
                                         .metric = metric.name,
                                         .subject = named.subject,
                                         .id = named.id,
                                         .place = named.place,
                                         .base = "-",
                                         .head = value_text(metric, value, listing),
                                         .code = exit_code_of(metric.kind)});
  };
  const std::vector<Measurement> now = measured_by(rule, metric, head);
  if (rule.limit) {
    for (const Measurement& m : now) {
      const auto verdict = verdict_of_limit(rule.better, m, *rule.limit);
      if (verdict) add(*verdict, m, m.value).bound = limit_text(rule.better, *rule.limit);
    }
  }
  if (!rule.tolerance_ratio) return static_cast<std::int64_t>(now.size());
  const std::vector<Measurement> before = measured_by(rule, metric, *base);
  const std::vector<Pair> pairs = pairs_of(metric.is_counter(), *base, head, before, now);
  for (const Pair& pair : pairs) {
    const auto verdict = verdict_of_pair(rule, metric, pair, listing);
    if (!verdict) continue;
    Finding& finding = add(*verdict, pair.named, pair.head);
    finding.base = value_text(metric, pair.base, listing);
    finding.bound = bound_text(rule.better, *rule.tolerance_ratio);
    if (pair.base > 0) finding.ratio = pair.head / pair.base;
    if (metric.is_counter() || !finding.ratio) continue;
    finding.ratio_low = *finding.ratio / pair.spread;
    finding.ratio_high = *finding.ratio * pair.spread;
  }
  return static_cast<std::int64_t>(pairs.size());
}

}  // namespace lossgrid
