// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/shard_checks.h"

#include <cmath>
#include <limits>

#include "harness/verify/bounds.h"
#include "harness/verify/unwritten.h"

namespace lossgrid {

bool has_logprob(const Problem& problem, const RowTruth& row) {
  return row.target >= 0 && (row.valid || !problem.poison_true_rows);
}

std::vector<Check> check_tokens(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const TokenOutputs& got,
                                int serial_adds, std::int64_t rank) {
  std::vector<Check> checks{Check("logprobs")};
  const bool statistics = !got.entropy.empty();
  if (statistics) {
    for (const char* name : {"entropy", "vocab_min", "vocab_max"}) checks.emplace_back(name);
  }
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (places[k].row < 0) continue;
    const RowTruth& row = truth.rows[places[k].row];
    if (!has_logprob(problem, row)) continue;
    const ElementPlace at{rank, places[k].sequence, places[k].offset, row.target};
    checks[0].add(got.logprobs[k], row.logprob, logprob_bound(row, serial_adds), at);
    if (!statistics) continue;
    checks[1].add(got.entropy[k], row.entropy(), entropy_bound(row, serial_adds), at);
    const DType dtype = problem.spec.dtype;
    checks[2].add(got.vocab_min[k], row.smallest, range_bound(row, row.smallest, dtype), at);
    checks[3].add(got.vocab_max[k], row.max, range_bound(row, row.max, dtype), at);
  }
  return checks;
}

namespace {

void check_metric(const MetricTruth& want, const Metric& got, std::int64_t rank, Check& check) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::optional<Enclosure> truth = want.value();
  const std::optional<double> value = got.value();
  if (got.reduction != want.reduction || truth.has_value() != value.has_value()) {
    check.add(nan, truth ? truth->value : nan, 0, {rank});
    return;
  }
  if (!truth) return;
  const bool exact = want.reduction == Reduction::count || want.reduction == Reduction::global;
  const double rounding = unit_roundoff(DType::f32) * std::abs(truth->value);
  check.add(*value, truth->value, exact ? 0.0 : truth->radius() + rounding, {rank});
}

}  // namespace

std::vector<Check> check_result(const ObjectiveTruth& truth, const ObjectiveResult& got,
                                std::int64_t rank) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Check> checks{Check("loss")};
  checks[0].add(got.loss, truth.loss.value,
                truth.loss.radius() + unit_roundoff(DType::f32) * std::abs(truth.loss.value),
                {rank});
  for (const auto& [name, want] : truth.metrics) {
    checks.emplace_back("metric." + name);
    const auto entry = got.metrics.find(name);
    if (entry == got.metrics.end()) {
      checks.back().add(nan, want.amount.value, 0, {rank});
    } else {
      check_metric(want, entry->second, rank, checks.back());
    }
  }
  for (const auto& [name, metric] : got.metrics) {
    if (truth.metrics.contains(name)) continue;
    checks.emplace_back("metric." + name);
    checks.back().add(nan, nan, 0, {rank});
  }
  return checks;
}

void BiasSums::add(const BiasSums& other) {
  out_truth += other.out_truth;
  rounded_truth += other.rounded_truth;
  computation_squared += other.computation_squared;
  shared += other.shared;
}

void BiasSums::add_element(DType dtype, double out, double truth, double baseline,
                           double computation, double shared_bound) {
  const double rounded = round_to(dtype, baseline);
  const double slack = computation + shared_bound;
  const double step = std::max(std::abs(round_to(dtype, baseline + slack) - rounded),
                               std::abs(round_to(dtype, baseline - slack) - rounded));
  out_truth += out * truth;
  rounded_truth += rounded * truth;
  shared += (shared_bound + std::max(0.0, step - slack)) * std::abs(truth);
}

Check check_bias(const BiasSums& sums, const std::string& name) {
  Check check(name);
  if (sums.rounded_truth == 0) return check;
  constexpr double kDeviations = 3;
  const double bound =
      (kDeviations * std::sqrt(sums.computation_squared) + sums.shared) / sums.rounded_truth;
  check.add(sums.out_truth / sums.rounded_truth, 1.0, bound, {});
  return check;
}

namespace {

class GradientComparison {
 public:
  GradientComparison(const Problem& problem, const Truth& truth, const VocabShard& shard,
                     int serial_adds, std::int64_t rank, GradientFindings& findings)
      : problem_(problem),
        truth_(truth),
        shard_(shard),
        serial_adds_(serial_adds),
        rank_(rank),
        findings_(findings),
        logits_(static_cast<std::size_t>(shard.valid())),
        p_(logits_.size()),
        want_(logits_.size()) {}

  template <typename T>
  void compare_row(const RowPlace& place, const T* got) {
    const bool takes_part = place.row >= 0 && truth_.rows[place.row].valid;
    findings_.row_sums.push_back(0);
    findings_.row_sum_bounds.push_back(0);
    if (takes_part) {
      compare_trained_row(place, got);
    } else {
      count_unless_zero(place, got, 0, shard_.valid(), findings_.nonzero_masked);
    }
    count_unless_zero(place, got, shard_.valid(), shard_.width, findings_.nonzero_padding);
  }

 private:
  template <typename T>
  void compare_trained_row(const RowPlace& place, const T* got) {
    const RowTruth& row = truth_.rows[place.row];
    const Enclosure& grad = truth_.objective.grad_logprob[place.row];
    problem_.logits->read(place.row, shard_.begin, std::span<double>(logits_));
    truth_probabilities(row, logits_, p_);
    truth_gradient(row, grad.value, p_, shard_.begin, want_);
    const GradientBound bound(row, grad, problem_.spec.dtype, serial_adds_);
    double computation_times_truth = 0;
    for (std::int64_t v = 0; v < shard_.valid(); ++v) {
      const ElementPlace here{rank_, place.sequence, place.offset, shard_.begin + v};
      if (is_unwritten(got[v])) misplaced(findings_.not_written, here);
      const double value = static_cast<double>(got[v]);
      const double want = want_[v];
      const bool is_target = shard_.begin + v == row.target;
      const double rounding = bound.rounding(want, p_[v], is_target);
      const double computation = bound.computation(logits_[v], p_[v], is_target);
      const double objective = bound.objective(p_[v], is_target);
      findings_.elements.add(value, want, rounding + computation + objective, here);
      findings_.row_sums.back() += value;
      findings_.row_sum_bounds.back() += rounding + computation;
      findings_.bias.add_element(problem_.spec.dtype, value, want, want, computation, objective);
      computation_times_truth += computation * std::abs(want);
    }
    findings_.bias.computation_squared += computation_times_truth * computation_times_truth;
  }

  template <typename T>
  void count_unless_zero(const RowPlace& place, const T* got, std::int64_t begin, std::int64_t end,
                         std::int64_t& counter) {
    for (std::int64_t v = begin; v < end; ++v) {
      const ElementPlace here{rank_, place.sequence, place.offset, shard_.begin + v};
      if (is_unwritten(got[v])) {
        misplaced(findings_.not_written, here);
      } else if (!(static_cast<double>(got[v]) == 0)) {
        misplaced(counter, here);
      }
    }
  }

  void misplaced(std::int64_t& counter, const ElementPlace& here) {
    if (findings_.not_written + findings_.nonzero_masked + findings_.nonzero_padding == 0) {
      findings_.first_misplaced = here;
    }
    ++counter;
  }

  const Problem& problem_;
  const Truth& truth_;
  const VocabShard& shard_;
  int serial_adds_;
  std::int64_t rank_;
  GradientFindings& findings_;
  std::vector<double> logits_;
  std::vector<double> p_;
  std::vector<double> want_;
};

}  // namespace

GradientFindings check_gradient(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const VocabShard& shard,
                                const void* gradient, int serial_adds, std::int64_t rank) {
  GradientFindings findings;
  GradientComparison comparison(problem, truth, shard, serial_adds, rank, findings);
  dispatch_floating(problem.spec.dtype, [&](auto zero) {
    const auto* got = static_cast<const decltype(zero)*>(gradient);
    for (std::size_t k = 0; k < places.size(); ++k) {
      comparison.compare_row(places[k], got + static_cast<std::int64_t>(k) * shard.width);
    }
  });
  return findings;
}

}  // namespace lossgrid
