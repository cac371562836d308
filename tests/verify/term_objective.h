// SPDX-License-Identifier: Apache-2.0
// A loss that is linear in all numbers of its rows, with weights that a test knows:
//   sum over valid rows t of w_t (g lp + h H + l L + m M),  w_t = 1 + t mod 3
#pragma once

#include <memory>

#include "harness/loss/objective.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Weights of the numbers of a row; 0 leaves one out.
struct TermWeights {
  double logprob = 0;
  double entropy = 0;
  double logsumexp = 0;
  double mean_logprob = 0;

  /// Returns them as the gradient of a row, times `factor`.
  RowGradientTruth gradient(double factor = 1) const {
    RowGradientTruth gradient{factor * logprob};
    gradient.terms[RowTerm::entropy] = factor * entropy;
    gradient.terms[RowTerm::logsumexp] = factor * logsumexp;
    gradient.terms[RowTerm::mean_logprob] = factor * mean_logprob;
    return gradient;
  }
};

inline constexpr TermWeights kAllTerms{-0.25, 0.125, 0.0625, -0.5};

class TermObjective final : public Objective {
 public:
  explicit TermObjective(const TermWeights& weights) : weights_(weights) {}

  static double factor_of(std::int64_t row) { return 1 + static_cast<double>(row % 3); }

  std::string_view kind() const override { return "terms"; }
  ObjectiveSizes sizes() const override { return {}; }
  void token_terms(const ObjectiveTokens&, const PackedBatch&, SequenceTable<const double>,
                   ObjectiveTotals<double>, const TokenGradients&) const override {}
  ObjectiveResult finish(const PackedBatch&, SequenceTable<const double>,
                         SequenceTable<const double>,
                         ObjectiveTotals<const double>) const override {
    return {};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth;
    truth.grad_logprob.assign(rows.size(), 0.0);
    for (const RowTerm term : kTerms) truth.grad_terms[term].assign(rows.size(), 0.0);
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 1; t < batch.length(i); ++t) {
        const std::int64_t row = batch.cu_seqlens[i] + t - 1;
        if (batch.token_mask[row + 1] == 0) continue;
        add(row, rows[row], truth);
      }
    }
    return truth;
  }

 private:
  void add(std::int64_t row, const TokenTruth& numbers, ObjectiveTruth& truth) const {
    const RowGradientTruth weights = weights_.gradient(factor_of(row));
    truth.grad_logprob[row] = weights.logprob;
    // Only the value is of use.
    truth.loss.value += weights.logprob.value * numbers.logprob.value;
    for (const RowTerm term : kTerms) {
      truth.grad_terms[term][row] = weights.terms[term];
      truth.loss.value += weights.terms[term].value * numbers.terms[term].value;
    }
  }

  static constexpr RowTerm kTerms[] = {RowTerm::entropy, RowTerm::logsumexp, RowTerm::mean_logprob};

  TermWeights weights_;
};

}  // namespace lossgrid
