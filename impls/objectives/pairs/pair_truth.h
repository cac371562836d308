// SPDX-License-Identifier: Apache-2.0
// PairTruth: the truth of objectives of preference pairs, on a tape and independent of PairSteps.
// An objective states the reward of a sequence and the loss of a pair.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/loss/tape.h"
#include "impls/objectives/gradient_sides.h"
#include "impls/objectives/pairs/pair_steps.h"

namespace lossgrid {

/// Sums over the valid tokens of a sequence.
struct TrueSequence {
  std::int64_t index = 0;
  double tokens = 0;
  Var logprob;
  Enclosure reference;  // 0 without a reference
  Var log_ratio;
  Enclosure alignment;  // sum of lp - log sum_v p_v^2, if pairs are weighted
  Var reward;

  double tokens_or_one() const { return std::max(1.0, tokens); }
};

struct TruePair {
  TrueSequence chosen;
  TrueSequence rejected;
};

class PairTruth {
 public:
  /// `side` is the number of the side to take if a number may be on either side of a switch; -1:
  /// all sides.
  PairTruth(const PairWeights& weights, const PackedBatch& batch, std::span<const TokenTruth> rows,
            int side);
  virtual ~PairTruth() = default;
  PairTruth(const PairTruth&) = delete;
  PairTruth& operator=(const PairTruth&) = delete;

  ObjectiveTruth take();

  /// Returns the number of sides of undecided switches; 1 if all switches are decided.
  int sides() const { return std::max(sides_, tape_.straddles() ? 2 : 1); }

 protected:
  virtual Var reward(const TrueSequence& sequence) = 0;
  /// Returns the loss of each of pairs(): loss(), unless overridden.
  virtual std::vector<Var> losses();
  virtual Var loss(const TruePair& pair) = 0;
  /// Returns the reward of the chosen sequence minus the reward of the rejected sequence.
  virtual Var reward_difference(const TruePair& pair) const {
    return pair.chosen.reward - pair.rejected.reward;
  }
  /// Adds metrics other than the loss and its two terms, and counts the preferred sequences.
  virtual void add_metrics(std::map<std::string, MetricTruth>& metrics);

  const std::vector<TruePair>& pairs() const { return pairs_; }
  const PackedBatch& batch() const { return batch_; }
  std::int64_t& branch(const std::string& name) { return truth_.branches[name]; }
  int side() const { return side_; }
  void expect_sides(int sides) { sides_ = std::max(sides_, sides); }

  /// Returns max(0, x), which has no gradient at 0, and counts no switch of the tape's own.
  static Var positive_part(const Var& x);

 private:
  void read_pairs();
  /// Returns the sequence. `whole` is the number of tokens with weight 1 in its log-ratio.
  TrueSequence read(std::int64_t i, std::int64_t whole);
  std::int64_t targets(std::int64_t i) const;
  std::vector<Var> sft_terms() const;
  double global_pairs() const {
    return static_cast<double>(batch_.denominators.valid_sequences) / 2;
  }
  /// Returns the sum over pairs, divided by the pairs of the global batch.
  template <typename Number>
  Number of_pairs(const std::vector<Number>& terms) const {
    return global_pairs() > 0 ? sum(terms) / global_pairs() : Number(0.0);
  }

  const PairWeights weights_;
  const PackedBatch& batch_;
  const std::span<const TokenTruth> rows_;
  const int side_;
  int sides_ = 1;
  Tape tape_;
  std::vector<Var> logprobs_;
  std::vector<std::int64_t> row_of_;
  std::vector<TruePair> pairs_;
  ObjectiveTruth truth_;
};

/// Returns the truth with the gradients of each side of its switches. make(side) returns the
/// PairTruth of a side.
template <class Make>
ObjectiveTruth truth_of_pairs(Make make) {
  auto all = make(-1);
  ObjectiveTruth truth = all->take();
  if (all->sides() == 1) return truth;
  std::vector<std::vector<Enclosure>> by_side;
  for (int side = 0; side < all->sides(); ++side) {
    by_side.push_back(make(side)->take().grad_logprob);
  }
  truth.grad_sides = different_gradients(by_side);
  return truth;
}

/// Returns an option with the interval of its rounding to float32.
inline Var rounded_option(double value) {
  const bool is_float32 = static_cast<double>(static_cast<float>(value)) == value;
  return is_float32 ? Var(value) : Var(rounded(value, 1));
}

/// Returns 1 / (1 + exp(-x)).
inline Var true_logistic(const Var& x) {
  return exp(log_sigmoid(x));
}

inline Var true_square(const Var& x) {
  return x * x;
}

/// Returns -(1 - e) log s(u) - e log s(-u).
inline Var true_smoothed(const Var& u, double e) {
  return -(rounded_option(1 - e) * log_sigmoid(u)) - rounded_option(e) * log_sigmoid(-u);
}

}  // namespace lossgrid
