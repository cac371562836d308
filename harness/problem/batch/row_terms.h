// SPDX-License-Identifier: Apache-2.0
// `RowTerm`: a number of a row beside its log-probability, as an index of columns, and `RowTerms`:
// those that the loss depends on. With p = softmax(z) and V the size of the vocabulary:
//   entropy       H = - sum_v p_v ln p_v, in nats
//   logsumexp     L = ln sum_v exp(z_v)
//   mean_logprob  M = (1 / V) sum_v ln p_v over the v with a logit that is not -inf
//   divergence    D from the distribution of a teacher
//   vocab_min     min_v z_v over the v with a logit that is not -inf
//   vocab_max     max_v z_v
//   sum_p2        sum_v p_v^2
//   top1          1 if the label is the id with the largest logit, the lowest such id; else 0
//   mean_logit    the mean of z_v over the v with a logit that is not -inf
// L of a head without a vocabulary, which gives one logit, is that number itself (CaseSpec::head).
// Logits of -inf have no probability and contribute nothing to any of them. docs/extending.md has
// the places that a new one needs. Plain data only: nvcc compiles this header.
#pragma once

#include <array>
#include <limits>
#include <string_view>

namespace lossgrid {

/// The first ones have a gradient: a loss may depend on them.
enum class RowTerm {
  entropy,
  logsumexp,
  mean_logprob,
  divergence,  // the last one with a gradient
  vocab_min,
  vocab_max,
  sum_p2,
  top1,
  mean_logit
};
inline constexpr std::array kRowTermNames =
    std::to_array<std::string_view>({"entropy", "logsumexp", "mean_logprob", "divergence",
                                     "vocab_min", "vocab_max", "sum_p2", "top1", "mean_logit"});
inline constexpr int kRowTerms = static_cast<int>(kRowTermNames.size());
inline constexpr int kGradientTerms = static_cast<int>(RowTerm::divergence) + 1;

/// Returns the name in checks, metrics and messages.
constexpr std::string_view name(RowTerm term) {
  return kRowTermNames[static_cast<std::size_t>(term)];
}

/// True for the row statistics (ObjectiveNeeds::row_statistics).
constexpr bool is_statistic(RowTerm term) {
  return term == RowTerm::entropy || term == RowTerm::vocab_min || term == RowTerm::vocab_max;
}

/// True for the numbers about predictions (ObjectiveNeeds::predictions).
constexpr bool is_prediction(RowTerm term) {
  return term == RowTerm::sum_p2 || term == RowTerm::top1 || term == RowTerm::mean_logit;
}

/// An element for each row term, or for each of the first `size`.
template <typename T, int size = kRowTerms>
struct ByRowTerm {
  T of[size] = {};

  constexpr T& operator[](RowTerm term) { return of[static_cast<int>(term)]; }
  constexpr const T& operator[](RowTerm term) const { return of[static_cast<int>(term)]; }
  constexpr T* begin() { return of; }
  constexpr T* end() { return of + size; }
  constexpr const T* begin() const { return of; }
  constexpr const T* end() const { return of + size; }
  friend constexpr bool operator==(const ByRowTerm&, const ByRowTerm&) = default;
};

/// An element for each row term that has a gradient.
template <typename T>
using ByGradientTerm = ByRowTerm<T, kGradientTerms>;

/// All row terms, in the order of their columns.
inline constexpr std::array<RowTerm, kRowTerms> kAllRowTerms = [] {
  std::array<RowTerm, kRowTerms> all{};
  for (int k = 0; k < kRowTerms; ++k) all[static_cast<std::size_t>(k)] = static_cast<RowTerm>(k);
  return all;
}();

/// All row terms that have a gradient.
inline constexpr std::array<RowTerm, kGradientTerms> kAllGradientTerms = [] {
  std::array<RowTerm, kGradientTerms> all{};
  for (std::size_t k = 0; k < all.size(); ++k) all[k] = kAllRowTerms[k];
  return all;
}();

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

/// The row terms that a loss depends on, and the divergence that the last of them is.
class RowTerms {
 public:
  Divergence divergence = {};

  constexpr void add(RowTerm term) { added_[term] = true; }
  constexpr bool has(RowTerm term) const {
    if (term == RowTerm::divergence) return divergence.is_any();
    return static_cast<int>(term) < kGradientTerms && added_[term];
  }
  constexpr int count() const {
    int count = 0;
    for (const RowTerm term : kAllGradientTerms) count += has(term) ? 1 : 0;
    return count;
  }
  constexpr bool any() const { return count() > 0; }
  friend constexpr bool operator==(const RowTerms&, const RowTerms&) = default;

 private:
  ByGradientTerm<bool> added_ = {};
};

}  // namespace lossgrid
