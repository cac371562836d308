// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

bool Outputs::has_metric(const std::string& name) const {
  if (metrics) return metrics->contains(name);
  const bool of_entropy = name.starts_with("entropy_");
  const bool of_range = name.starts_with("vocab_min_") || name.starts_with("vocab_max_");
  return (entropy || !of_entropy) && (vocab_range || !of_range);
}

TokenOutputs Outputs::only_given(const TokenOutputs& columns) const {
  TokenOutputs given;
  if (logprobs) given.logprobs = columns.logprobs;
  if (entropy) given.entropy = columns.entropy;
  if (vocab_range) {
    given.vocab_min = columns.vocab_min;
    given.vocab_max = columns.vocab_max;
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
  return {cut(logprobs), cut(entropy), cut(vocab_min), cut(vocab_max)};
}

TokenOutputs columns_in(std::span<float> block, const LossProblem& problem, std::int64_t rows) {
  const auto size = static_cast<std::size_t>(rows);
  TokenOutputs columns{block.first(size), {}, {}, {}};
  if (problem.row_statistics()) {
    columns.entropy = block.subspan(size, size);
    columns.vocab_min = block.subspan(2 * size, size);
    columns.vocab_max = block.subspan(3 * size, size);
  }
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
