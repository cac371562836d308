// SPDX-License-Identifier: Apache-2.0
// TermsObjective: an objective whose code for one token is a struct of terms (terms_kernels.h), on
// the host and as kernels.
#pragma once

#include <memory>

#include "harness/loss/objective.h"
#include "harness/loss/terms_kernels.h"

namespace lossgrid {

template <class Terms>
class TermsObjective : public Objective {
 public:
  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    add_sequence_sums(terms(batch), tokens, sums);
  }
  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override {
    add_token_terms(terms(batch), tokens, coefficients, totals.sums.data(), totals.maxima.data(),
                    gradients);
  }
  std::unique_ptr<ObjectiveKernels> kernels(Backend backend,
                                            const PackedBatch& batch) const override {
    return terms_kernels(backend, terms(batch));
  }

 protected:
  using Objective::Objective;

 private:
  /// Returns the terms for the tokens of a pack.
  virtual Terms terms(const PackedBatch& batch) const = 0;
};

}  // namespace lossgrid
