// SPDX-License-Identifier: Apache-2.0
// `RowTerms`: the numbers of a row, beside its log-probability, that the loss depends on. With
// p = softmax(z) and V the size of the vocabulary:
//   entropy       H = - sum_v p_v ln p_v, in nats
//   logsumexp     L = ln sum_v exp(z_v)
//   mean_logprob  M = (1 / V) sum_v ln p_v over the v with a logit that is not -inf
//   divergence    D from the distribution of a teacher
// Logits of -inf have no probability and contribute nothing to any of them. Plain data only: nvcc
// compiles this header.
#pragma once

namespace lossgrid {

/// Divergence of a row's distribution p, the student's, from that of a teacher, q. Its value is D:
///   forward  sum_v q_v (ln q_v - ln p_v)
///   reverse  sum_v p_v (ln p_v - ln q_v)
///   jsd      b sum_v q_v ln(q_v / m_v) + (1 - b) sum_v p_v ln(p_v / m_v),  m = b q + (1 - b) p,
/// where summands with a factor of 0 are 0 (R. Agarwal et al., "On-Policy Distillation of Language
/// Models", 2024). With `on_support` p is renormalised over the ids that have a probability of the
/// teacher, those of its top k, and only these are summed over.
struct Divergence {
  enum class Kind { none, forward, reverse, jsd };

  Kind kind = Kind::none;
  double beta = 0.5;  // b
  bool on_support = false;

  constexpr bool is_any() const { return kind != Kind::none; }
  friend constexpr bool operator==(const Divergence&, const Divergence&) = default;
};

struct RowTerms {
  bool entropy = false;
  bool logsumexp = false;
  bool mean_logprob = false;
  Divergence divergence = {};

  constexpr bool any() const { return count() > 0; }
  constexpr int count() const {
    return (entropy ? 1 : 0) + (logsumexp ? 1 : 0) + (mean_logprob ? 1 : 0) +
           (divergence.is_any() ? 1 : 0);
  }
  friend constexpr bool operator==(const RowTerms&, const RowTerms&) = default;
};

}  // namespace lossgrid
