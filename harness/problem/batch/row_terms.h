// SPDX-License-Identifier: Apache-2.0
// `RowTerms`: the numbers of a row, beside its log-probability, that the loss depends on. With
// p = softmax(z) and V the size of the vocabulary:
//   entropy       H = - sum_v p_v ln p_v, in nats
//   logsumexp     L = ln sum_v exp(z_v)
//   mean_logprob  M = (1 / V) sum_v ln p_v over the v with a logit that is not -inf
// Logits of -inf have no probability and contribute nothing to any of them. Plain data only: nvcc
// compiles this header.
#pragma once

namespace lossgrid {

struct RowTerms {
  bool entropy = false;
  bool logsumexp = false;
  bool mean_logprob = false;

  constexpr bool any() const { return entropy || logsumexp || mean_logprob; }
  constexpr int count() const {
    return (entropy ? 1 : 0) + (logsumexp ? 1 : 0) + (mean_logprob ? 1 : 0);
  }
  friend constexpr bool operator==(const RowTerms&, const RowTerms&) = default;
};

}  // namespace lossgrid
