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

#include <limits>

namespace lossgrid {

/// Divergence of a row's distribution p, the student's, from that of a teacher, q. Its value is D:
///   forward  F = sum_v q_v (ln q_v - ln p_v)
///   reverse  R = sum_v p_v (ln p_v - ln q_v)
///   jsd      b sum_v q_v ln(q_v / m_v) + (1 - b) sum_v p_v ln(p_v / m_v),  m = b q + (1 - b) p
///   mixed    b F + (1 - b) R
/// where summands with a factor of 0 are 0 (R. Agarwal et al., "On-Policy Distillation of Language
/// Models", 2024). The ids of a row that a teacher has sent are those whose logits of it are not
/// -inf; `topk` is what the others count for.
struct Divergence {
  enum class Kind { none, forward, reverse, jsd, mixed };

  enum class Topk {
    whole,         // nothing was left out: q is 0 there
    renormalized,  // p and q are distributions over the ids that were sent, alone summed over
    zero_outside,  // q is 0 there, and ln q is kLogOutside where it is compared with p
    // In these two the teacher's logits are its log-probabilities, and q adds up to at most 1.
    clamped,  // forward over the ids that were sent, of logarithms that are at least log_prob_min
    tail,     // all others together are one more id, whose probabilities are at least kSmallestTail
  };

  static constexpr double kLogOutside = -100;                    // NeMo-RL
  static constexpr double kSmallestTail = 9.999999500000016e-8;  // 1 - exp(-1e-7), TRL

  Kind kind = Kind::none;
  double beta = 0.5;  // b, the weight of the teacher's or forward side
  Topk topk = Topk::whole;
  double log_prob_min = -std::numeric_limits<double>::infinity();

  constexpr bool is_any() const { return kind != Kind::none; }
  constexpr bool on_support() const { return topk == Topk::renormalized; }
  constexpr bool has_tail() const { return topk == Topk::tail; }
  constexpr bool is_clamped() const { return topk == Topk::clamped; }
  /// True if the teacher's logits are log-probabilities that need no sum.
  constexpr bool takes_logprobs() const { return has_tail() || is_clamped(); }
  /// Returns the same of a teacher that sends the logits of every id.
  constexpr Divergence of_all_ids() const {
    Divergence all = *this;
    all.topk = Topk::whole;
    return all;
  }
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
