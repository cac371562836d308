// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/loss_implementation.h"

#include <algorithm>
#include <iterator>

#include "harness/loss/prediction_metrics_terms.h"

namespace lossgrid {
namespace {

/// Memory of columns of `rows` elements, cut off one after the other.
struct Columns {
  std::span<float> block;
  std::size_t rows;

  /// Returns the next column; empty unless `is_there`.
  std::span<float> take(bool is_there) {
    if (!is_there) return {};
    const std::span<float> column = block.first(rows);
    block = block.subspan(rows);
    return column;
  }
};

}  // namespace

bool Outputs::has_metric(const std::string& name) const {
  if (metrics) return metrics->contains(name);
  const bool of_entropy = name.starts_with("entropy_");
  const bool of_range = name.starts_with("vocab_min_") || name.starts_with("vocab_max_");
  const bool of_predictions =
      std::find(std::begin(kPredictionMetrics), std::end(kPredictionMetrics), name) !=
      std::end(kPredictionMetrics);
  return (entropy || !of_entropy) && (vocab_range || !of_range) && (terms || !of_predictions);
}

bool Outputs::has(RowTerm term) const {
  if (term == RowTerm::entropy) return entropy;
  return is_statistic(term) ? vocab_range : terms;
}

TokenOutputs Outputs::only_given(const TokenOutputs& columns) const {
  TokenOutputs given;
  if (logprobs) given.logprobs = columns.logprobs;
  for (const RowTerm term : kAllRowTerms) {
    if (has(term)) given.terms[term] = columns.terms[term];
  }
  return given;
}

void Outputs::keep_given(Metrics& all) const {
  std::erase_if(all, [&](const auto& metric) { return !has_metric(metric.first); });
}

TokenOutputs TokenOutputs::part(std::int64_t begin, std::int64_t count) const {
  const auto cut = [&](std::span<float> column) {
    return column.empty()
               ? column
               : column.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  };
  TokenOutputs part{cut(logprobs)};
  for (const RowTerm term : kAllRowTerms) part.terms[term] = cut(terms[term]);
  return part;
}

TokenOutputs columns_in(std::span<float> block, const LossProblem& problem, std::int64_t rows) {
  Columns next{block, static_cast<std::size_t>(rows)};
  TokenOutputs columns{next.take(true)};
  for (const RowTerm term : kAllRowTerms) columns.terms[term] = next.take(problem.returns(term));
  return columns;
}

TokenGradients gradients_in(std::span<float> block, const LossProblem& problem, std::int64_t rows) {
  Columns next{block, static_cast<std::size_t>(rows)};
  const RowTerms terms = problem.terms();
  TokenGradients columns{next.take(true)};
  for (const RowTerm term : kAllGradientTerms) columns.terms[term] = next.take(terms.has(term));
  return columns;
}

void LossPlan::forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                                LossGradients& gradients) {
  forward(inputs, outputs);
  backward(inputs, gradients);
}

void LossImplementation::require_fits(const LossProblem& /*problem*/) const {}

std::optional<SkipReason> LossImplementation::unsupported(const LossProblem& /*problem*/) const {
  return std::nullopt;
}

std::map<std::string, std::string> LossImplementation::details(
    const LossProblem& /*problem*/) const {
  return {};
}

}  // namespace lossgrid
