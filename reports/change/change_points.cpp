// SPDX-License-Identifier: Apache-2.0
#include "reports/change/change_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

namespace lossgrid {
namespace {

/// Sums of distances |x_i - x_j| within a stretch of values, from a table of partial sums.
class Distances {
 public:
  explicit Distances(std::span<const double> values)
      : count_(values.size()), sums_((count_ + 1) * (count_ + 1)) {
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < count_; ++j) {
        at(i + 1, j + 1) = std::abs(values[i] - values[j]) + at(i, j + 1) + at(i + 1, j) - at(i, j);
      }
    }
  }

  /// Returns the energy statistic of [0, split) and [split, end), Matteson and James 2014, eq. 5
  /// and 6 with exponent 1: large when distances between the two exceed those within each.
  double divergence(std::size_t split, std::size_t end) {
    const auto before = static_cast<double>(split);
    const auto after = static_cast<double>(end - split);
    const double between = (at(split, end) - at(split, split)) / (before * after);
    const double within_before = mean_of_pairs(at(split, split), before);
    const double within_after =
        mean_of_pairs(at(end, end) - 2 * at(split, end) + at(split, split), after);
    return before * after / (before + after) * (2 * between - within_before - within_after);
  }

 private:
  double& at(std::size_t i, std::size_t j) { return sums_[i * (count_ + 1) + j]; }

  /// `sum` counts every pair of `count` values twice.
  static double mean_of_pairs(double sum, double count) {
    return count > 1 ? sum / (count * (count - 1)) : 0;
  }

  std::size_t count_;
  std::vector<double> sums_;
};

struct Sample {
  double count = 0;
  double mean = 0;
  double squares = 0;  // of the differences from the mean

  explicit Sample(std::span<const double> values) : count(static_cast<double>(values.size())) {
    for (const double value : values) mean += value / count;
    for (const double value : values) squares += (value - mean) * (value - mean);
  }
};

/// Returns the p-value of Student's test of equal means, variances taken as equal.
double p_value_of(const Sample& a, const Sample& b) {
  const double degrees = a.count + b.count - 2;
  if (degrees < 1) return 1;
  const double variance = (a.squares + b.squares) / degrees * (1 / a.count + 1 / b.count);
  const double difference = std::abs(a.mean - b.mean);
  if (difference == 0) return 1;
  return student_p_value(difference / std::sqrt(variance), static_cast<std::size_t>(degrees));
}

class MeanChanges {
 public:
  MeanChanges(std::span<const double> values, const ChangePointRule& rule) : rule_(rule) {
    for (const double value : values) logs_.push_back(std::log(value));
  }

  std::vector<ChangePoint> find() {
    for (std::size_t begin = 0;; begin += rule_.window / 2) {
      const std::size_t end = std::min(begin + rule_.window, logs_.size());
      add_candidates(begin, end);
      if (end == logs_.size()) break;
    }
    return kept();
  }

 private:
  std::span<const double> part(std::size_t begin, std::size_t end) const {
    return std::span(logs_).subspan(begin, end - begin);
  }

  void add_candidates(std::size_t begin, std::size_t end) {
    if (end - begin < rule_.min_points_before + rule_.min_points_after) return;
    Distances distances(part(begin, end));
    double most = 0;
    std::size_t split = begin;
    for (std::size_t at = rule_.min_points_before; at + rule_.min_points_after <= end - begin;
         ++at) {
      for (std::size_t stop = at + rule_.min_points_after; stop <= end - begin; ++stop) {
        const double divergence = distances.divergence(at, stop);
        if (divergence <= most) continue;
        most = divergence;
        split = begin + at;
      }
    }
    if (split == begin) return;  // all values are the same
    constexpr double kCandidates = 10;
    const double p_value = p_value_of(Sample(part(begin, split)), Sample(part(split, end)));
    if (p_value >= kCandidates * rule_.max_p_value) return;
    candidates_.insert(split);
    add_candidates(begin, split);
    add_candidates(split, end);
  }

  bool keeps_rule(const ChangePoint& change, std::size_t begin, std::size_t end) const {
    return change.p_value < rule_.max_p_value &&
           std::abs(change.ratio - 1) >= rule_.min_change_ratio &&
           is_long_enough(part(begin, change.index), part(change.index, end),
                          rule_.min_points_before) &&
           is_long_enough(part(change.index, end), part(begin, change.index),
                          rule_.min_points_after);
  }

  /// True unless `own` has the least length and one of its points is nearer to the other side: a
  /// last outlier and the run before it are no change.
  static bool is_long_enough(std::span<const double> own, std::span<const double> other,
                             std::size_t least) {
    if (own.size() != least) return own.size() > least;
    const double own_mean = Sample(own).mean;
    const double other_mean = Sample(other).mean;
    return std::all_of(own.begin(), own.end(), [&](double value) {
      return std::abs(value - own_mean) < std::abs(value - other_mean);
    });
  }

  std::vector<ChangePoint> kept() {
    while (true) {
      std::vector<std::size_t> edges{0};
      edges.insert(edges.end(), candidates_.begin(), candidates_.end());
      edges.push_back(logs_.size());
      std::vector<ChangePoint> changes;
      const ChangePoint* least_certain = nullptr;
      changes.reserve(edges.size());
      for (std::size_t k = 1; k + 1 < edges.size(); ++k) {
        const Sample before(part(edges[k - 1], edges[k]));
        const Sample after(part(edges[k], edges[k + 1]));
        changes.push_back({.index = edges[k],
                           .ratio = std::exp(after.mean - before.mean),
                           .p_value = p_value_of(before, after)});
        if (keeps_rule(changes.back(), edges[k - 1], edges[k + 1])) continue;
        if (least_certain == nullptr || changes.back().p_value > least_certain->p_value) {
          least_certain = &changes.back();
        }
      }
      if (least_certain == nullptr) return changes;
      candidates_.erase(least_certain->index);
    }
  }

  ChangePointRule rule_;
  std::vector<double> logs_;
  std::set<std::size_t> candidates_;
};

}  // namespace

double student_p_value(double t, std::size_t degrees) {
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(angle);
  double term = degrees % 2 == 0 ? 1 : cosine;
  double sum = degrees == 1 ? 0 : term;
  for (std::size_t k = degrees % 2 == 0 ? 2 : 3; k + 2 <= degrees; k += 2) {
    term *= cosine * cosine * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  const double within = degrees % 2 == 0 ? std::sin(angle) * sum
                                         : 2 / std::numbers::pi * (angle + std::sin(angle) * sum);
  return std::clamp(1 - within, 0.0, 1.0);
}

std::vector<ChangePoint> mean_changes(std::span<const double> values, ChangePointRule rule) {
  return MeanChanges(values, rule).find();
}

std::vector<ChangePoint> exact_changes(std::span<const double> values) {
  std::vector<ChangePoint> changes;
  for (std::size_t k = 1; k < values.size(); ++k) {
    if (values[k] == values[k - 1]) continue;
    const double ratio =
        values[k - 1] == 0 ? std::numeric_limits<double>::infinity() : values[k] / values[k - 1];
    changes.push_back({.index = k, .ratio = ratio});
  }
  return changes;
}

std::vector<ChangePoint> change_points(const HistorySeries& series) {
  std::vector<double> values;
  for (const HistoryPoint& point : series.points) values.push_back(point.value);
  return series.is_time() ? mean_changes(values) : exact_changes(values);
}

}  // namespace lossgrid
