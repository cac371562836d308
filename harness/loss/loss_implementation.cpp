// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

TokenOutputs TokenOutputs::part(std::int64_t begin, std::int64_t count) const {
  const auto cut = [&](std::span<float> column) {
    return column.empty()
               ? column
               : column.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  };
  return {cut(logprobs), cut(entropy), cut(vocab_min), cut(vocab_max)};
}

std::string LossImplementation::why_unsupported(const LossProblem& /*problem*/) const {
  return "";
}

std::map<std::string, std::string> LossImplementation::details(
    const LossProblem& /*problem*/) const {
  return {};
}

}  // namespace lossgrid
