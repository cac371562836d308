// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/objective.h"

#include <algorithm>

#include "harness/device/kernel/block_sums.h"

namespace lossgrid {

std::int64_t partial_total_blocks(std::int64_t tokens) {
  constexpr std::int64_t kMostBlocks = 128;  // about one per SM, and few enough to add up serially
  return std::min(kMostBlocks, (tokens + kBlockThreads - 1) / kBlockThreads);
}

std::optional<Enclosure> MetricTruth::value() const {
  if (reduction == Reduction::count) return amount;
  if (count == 0) return std::nullopt;
  return reduction == Reduction::mean ? amount / Enclosure(count) : amount;
}

RowGradientTruth ObjectiveTruth::gradient(std::int64_t row) const {
  const auto of = [row](const std::vector<Enclosure>& column) {
    return column.empty() ? Enclosure() : column[static_cast<std::size_t>(row)];
  };
  RowGradientTruth gradient{of(grad_logprob)};
  for (const RowTerm term : kAllGradientTerms) gradient.terms[term] = of(grad_terms[term]);
  return gradient;
}

std::map<std::string, double> ObjectiveTruth::branch_shares(const PackedBatch& batch) const {
  double tokens = 0;
  double sequences = 0;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.sample_mask[i] == 0) continue;
    ++sequences;
    for (std::int64_t t = batch.ahead; t < batch.length(i); ++t) {
      tokens += batch.token_mask[batch.cu_seqlens[i] + t];
    }
  }
  std::map<std::string, double> shares;
  for (const auto& [branch, count] : branches) {
    const double all = branch.starts_with("sequence_") ? sequences
                       : branch.starts_with("pairs_")  ? sequences / 2
                                                       : tokens;
    if (all > 0) shares[branch] = static_cast<double>(count) / all;
  }
  return shares;
}

}  // namespace lossgrid
