// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/output_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/verify/truth/bounds.h"

namespace lossgrid {

bool has_logprob(const Problem& problem, const RowTruth& row) {
  const bool is_poisoned = !row.valid && problem.poison_true_rows;
  return row.target >= 0 && !is_poisoned && !std::isnan(row.logprob);
}

std::vector<Check> check_tokens(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const TokenOutputs& all,
                                const Outputs& outputs, int serial_adds, std::int64_t rank) {
  const TokenOutputs got = outputs.only_given(all);
  Check logprobs("logprobs");
  std::vector<Check> of_terms;
  for (const RowTerm term : kAllRowTerms) of_terms.emplace_back(std::string(name(term)));
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (places[k].row < 0) continue;
    const RowTruth& row = truth.rows[places[k].row];
    if (!has_logprob(problem, row)) continue;
    const ElementPlace at{rank, places[k].sequence, places[k].offset, row.target};
    if (!got.logprobs.empty()) {
      logprobs.add_float32(got.logprobs[k], row.logprob, logprob_bound(row, serial_adds), at);
    }
    for (std::size_t c = 0; c < of_terms.size(); ++c) {
      const RowTerm term = kAllRowTerms[c];
      if (got.terms[term].empty()) continue;
      double want = row.term(term);
      if (term == RowTerm::divergence && std::isnan(want)) continue;
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      double number = got.terms[term][k];
      if (number == -kInfinity && row.may_overflow(term)) number = want;
      double bound = term_bound(row, term, serial_adds, problem.spec.dtype);
      if (term == RowTerm::top1) {
        // The number is 0 or 1 even if both are right.
        if (bound > 0) want = number == 0 ? 0 : 1;
        bound = 0;
      }
      of_terms[c].add_float32(number, want, bound, at);
    }
  }
  std::vector<Check> checks;
  if (outputs.logprobs) checks.push_back(std::move(logprobs));
  for (std::size_t c = 0; c < of_terms.size(); ++c) {
    if (!got.terms[kAllRowTerms[c]].empty()) checks.push_back(std::move(of_terms[c]));
  }
  return checks;
}

namespace {

/// Compares with the interval of a number, widened by `rounding`. If the number is infinite and
/// finite results are right as well, an error has no meaning: only a result outside of the interval
/// is beyond its bound.
void add_number(const Enclosure& want, double got, double rounding, std::int64_t rank,
                Check& check) {
  if (std::isinf(want.value) && !want.is_exact()) {
    check.add(got, std::clamp(got, want.low, want.high), 0, {rank});
  } else {
    check.add(got, want.value, want.radius() + rounding, {rank});
  }
}

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
  if (exact) return check.add(*value, truth->value, 0, {rank});
  add_number(*truth, *value, unit_roundoff(DType::f32) * std::abs(truth->value), rank, check);
}

}  // namespace

std::vector<Check> check_result(const ObjectiveTruth& truth, const ObjectiveResult& got,
                                const Outputs& outputs, std::int64_t rank,
                                const DeclaredRoundings& declared) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Check> checks;
  if (outputs.loss) {
    checks.emplace_back("loss");
    add_number(truth.loss, got.loss, declared.loss * std::abs(truth.loss.value), rank, checks[0]);
  }
  for (const auto& [name, want] : truth.metrics) {
    if (!outputs.has_metric(name)) continue;
    checks.emplace_back("metric." + name);
    const auto entry = got.metrics.find(name);
    if (entry == got.metrics.end()) {
      checks.back().add(nan, want.amount.value, 0, {rank});
    } else {
      check_metric(want, entry->second, rank, checks.back());
    }
  }
  for (const auto& [name, metric] : got.metrics) {
    if (truth.metrics.contains(name) && outputs.has_metric(name)) continue;
    checks.emplace_back("metric." + name);
    checks.back().add(nan, nan, 0, {rank});
  }
  return checks;
}

}  // namespace lossgrid
