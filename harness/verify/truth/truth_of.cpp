// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/truth_of.h"

namespace lossgrid {
namespace {

/// Returns the batch with nothing but the tokens of a part, and their counts.
PackedBatch batch_of(const PackedBatch& whole, const std::vector<std::uint8_t>& tokens) {
  PackedBatch batch = whole;
  Denominators counts;
  const bool counts_sequences = whole.denominators.all_sequences > 0;
  for (std::int64_t i = 0; i < whole.sequences(); ++i) {
    bool has_any = false;
    std::int64_t valid = 0;
    for (std::int64_t t = whole.cu_seqlens[i]; t < whole.cu_seqlens[i + 1]; ++t) {
      has_any = has_any || tokens[t] != 0;
      batch.token_mask[t] = tokens[t] != 0 ? whole.token_mask[t] : 0;
      if (t >= whole.cu_seqlens[i] + whole.ahead) valid += batch.token_mask[t];
    }
    if (!has_any) batch.sample_mask[i] = 0;
    counts.all_sequences += has_any && counts_sequences ? 1 : 0;
    if (batch.sample_mask[i] == 0) continue;
    ++counts.valid_sequences;
    counts.valid_tokens += valid;
    counts.trained_sequences += valid > 0 && counts_sequences ? 1 : 0;
    if (!batch.rewards.empty() && batch.rewards[i] > 0) counts.positive_tokens += valid;
  }
  batch.denominators = counts;
  return batch;
}

/// Adds `weight` times the gradients of a part.
void add_gradients(const std::vector<Enclosure>& part, double weight, std::vector<Enclosure>& sum) {
  if (sum.empty()) sum.resize(part.size());
  for (std::size_t row = 0; row < part.size(); ++row) {
    if (part[row].is_exact() && part[row].value == 0) continue;
    const Enclosure own = part[row] * weight;
    const bool is_first = sum[row].is_exact() && sum[row].value == 0;
    sum[row] = is_first ? own : sum[row] + own;
  }
}

void add(const ObjectiveTruth& part, double weight, ObjectiveTruth& sum) {
  sum.loss += part.loss * weight;
  add_gradients(part.grad_logprob, weight, sum.grad_logprob);
  for (const RowTerm term : kAllGradientTerms) {
    if (part.grad_terms[term].empty()) continue;
    add_gradients(part.grad_terms[term], weight, sum.grad_terms[term]);
  }
  for (const auto& [row, sides] : part.grad_sides) {
    for (const Enclosure& side : sides) sum.grad_sides[row].push_back(side * weight);
  }
}

}  // namespace

std::shared_ptr<const Objective> sum_of_parts(const std::shared_ptr<const Objective>& objective,
                                              std::vector<WeighedPart> parts) {
  const auto truth = [objective, parts = std::move(parts)](const PackedBatch& batch,
                                                           std::span<const TokenTruth> rows) {
    ObjectiveTruth sum;
    for (const WeighedPart& part : parts) {
      const PackedBatch own = batch_of(batch, part.tokens);
      if (own.denominators.valid_tokens == 0) continue;
      add(objective->truth(own, rows), part.weight, sum);
    }
    if (sum.grad_logprob.empty()) sum.grad_logprob.resize(rows.size());
    return sum;
  };
  return std::make_shared<TruthOf>(*objective, truth);
}

std::shared_ptr<const Objective> sum_of(const std::shared_ptr<const Objective>& objective,
                                        const std::shared_ptr<const Objective>& added) {
  const auto truth = [objective, added](const PackedBatch& batch,
                                        std::span<const TokenTruth> rows) {
    ObjectiveTruth sum = objective->truth(batch, rows);
    sum.grad_sides.clear();
    add(added->truth(batch, rows), 1, sum);
    return sum;
  };
  return std::make_shared<TruthOf>(*objective, truth);
}

std::shared_ptr<const Objective> with_changed_gradient(
    const std::shared_ptr<const Objective>& objective, std::vector<std::uint8_t> token_mask,
    std::function<void(ObjectiveTruth& truth)> change) {
  const auto truth = [objective, mask = std::move(token_mask), change = std::move(change)](
                         const PackedBatch& batch, std::span<const TokenTruth> rows) {
    PackedBatch masked = batch;
    masked.token_mask = mask;
    ObjectiveTruth changed = objective->truth(masked, rows);
    change(changed);
    return changed;
  };
  return std::make_shared<TruthOf>(*objective, truth);
}

}  // namespace lossgrid
