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

/// Adds 0 for every counter that `other` has of a selected trial and `measured` has not.
void add_zeros(std::vector<Measurement>& measured, const std::vector<Measurement>& other,
               const Selection& selection) {
  std::set<std::string_view> trials;
  for (const TrialRecord* trial : selection.trials) trials.insert(trial->id);
  std::set<Key> known;
  measured.reserve(measured.size() + other.size());  // keys stay valid
  for (const Measurement& m : measured) known.insert(key_of(m));
  for (const Measurement& m : other) {
    if (!trials.contains(m.id) || !known.insert(key_of(m)).second) continue;
    measured.push_back(m);
    measured.back().value = 0;
    measured.back().is_filled_in = true;
  }
}

/// A number of BASE and the same number of HEAD.
using Pair = std::pair<Measurement, Measurement>;

std::vector<Pair> pairs_of(const PolicyRule& rule, const ReportMetric& metric,
                           const Selection& base, const Selection& head) {
  std::vector<Measurement> before = measured_by(rule, metric, base);
  std::vector<Measurement> now = measured_by(rule, metric, head);
  if (metric.is_counter()) {
    add_zeros(now, before, head);
    add_zeros(before, now, base);
  }
  std::map<Key, const Measurement*> in_base;
  for (const Measurement& m : before) in_base.emplace(key_of(m), &m);
  std::vector<Pair> pairs;
  for (Measurement& m : now) {
    const auto found = in_base.find(key_of(m));
    if (found != in_base.end()) pairs.emplace_back(*found->second, std::move(m));
  }
  return pairs;
}

/// Formats exact counts and three decimals of times for a list of changes, else the shortest form.
std::string value_text(const ReportMetric& metric, double value, Listing listing) {
  if (listing == Listing::failures) return format_number(value);
  if (metric.is_counter()) return std::to_string(static_cast<std::int64_t>(value));
  return fmt::format("{:.3f}", value);
}

/// Judges HEAD, worse than BASE by at most `worst`, where HEAD may be worse by `most`.
std::optional<Verdict> verdict_of_change(const ReportMetric& metric, const Measurement& head,
                                         double worst, double most) {
  if (!metric.is_counter() && worst == most) return Verdict::inconclusive;
  if (!head.is_filled_in && worst < 1 / most) return Verdict::improved;
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
  const auto add = [&](Verdict verdict, const Measurement& measurement, std::string bound) {
    findings.push_back({.verdict = verdict,
                        .kind = metric.kind,
                        .metric = metric.name,
                        .subject = measurement.subject,
                        .id = measurement.id,
                        .place = measurement.place,
                        .base = "-",
                        .head = value_text(metric, measurement.value, listing),
                        .bound = std::move(bound),
                        .code = exit_code_of(metric.kind)});
  };
  std::int64_t matches = 0;
  if (rule.limit) {
    for (const Measurement& now : measured_by(rule, metric, head)) {
      ++matches;
      const auto verdict = verdict_of_limit(rule.better, now, *rule.limit);
      if (verdict) add(*verdict, now, limit_text(rule.better, *rule.limit));
    }
  }
  if (!rule.tolerance_ratio) return matches;
  const double most = 1 + *rule.tolerance_ratio;
  const std::vector<Pair> pairs = pairs_of(rule, metric, *base, head);
  for (const auto& [before, now] : pairs) {
    const double spread =
        std::exp(kStandardErrors * std::hypot(before.stderr_ratio, now.stderr_ratio));
    const double worse = worsening(rule.better, before.value, now.value);
    auto verdict = verdict_of(worse, spread, most);
    if (!verdict && listing == Listing::changes) {
      verdict = verdict_of_change(metric, now, worse * spread, most);
    }
    if (!verdict) continue;
    add(*verdict, now, bound_text(rule.better, *rule.tolerance_ratio));
    Finding& finding = findings.back();
    finding.base = value_text(metric, before.value, listing);
    if (before.value > 0) finding.ratio = now.value / before.value;
    if (metric.is_counter() || !finding.ratio) continue;
    finding.ratio_low = *finding.ratio / spread;
    finding.ratio_high = *finding.ratio * spread;
  }
  return static_cast<std::int64_t>(pairs.size());
}

}  // namespace lossgrid
