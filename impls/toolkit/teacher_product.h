// SPDX-License-Identifier: Apache-2.0
// `TeacherProduct`: logits of a teacher that is given as hidden states and a weight: their product,
// float32 with float32 accumulation, made of some rows at a time, so that no more than these exist.
// Rows that predict nothing are not read: their logits are 0. It has no gradient. Nothing where the
// teacher's logits are given.
#pragma once

#include <memory>
#include <vector>

#include "impls/toolkit/strategy.h"

namespace lossgrid {

class TeacherProduct {
 public:
  /// For the rows of `rows`, which outlives it, at most `capacity` of them at a time. With
  /// `over_cp` the rows are those of all CP ranks, one rank after the other.
  TeacherProduct(const LossProblem& problem, RankContext context, const Steps& steps,
                 const RowTable& rows, std::int64_t capacity, bool over_cp = false);
  ~TeacherProduct();
  static std::int64_t bytes(const LossProblem& problem, std::int64_t capacity,
                            bool over_cp = false);
  /// Adds the collectives of gather().
  static void add_gather(const LossProblem& problem, PhaseCost& phase, bool over_cp = false);
  /// Adds the FLOPs of making the logits of `rows` rows once.
  static void add_flops(const LossProblem& problem, std::int64_t rows, PhaseCost& phase);

  /// Returns the rows that a strategy without chunks of its own goes through at a time: all of the
  /// rank's, but as many as a chunk of an lm_head has where the logits are made.
  static std::int64_t chunk_rows(const LossProblem& problem);
  /// Returns the rank's rows in ranges of as many; one range where there are no rows.
  static std::vector<RowRange> chunks(const LossProblem& problem);

  /// Takes the hidden states and the weight of `inputs`, the former from the ranks that have rows
  /// of them. Collective.
  void gather(const LossInputs& inputs);

  /// Makes the teacher's logits of `logits`, whose rows begin at row `begin` of the table; valid
  /// until the next call.
  void make(std::int64_t begin, LogitsRows& logits);

 private:
  class Maker;

  std::unique_ptr<Maker> maker_;  // null where the logits are given
};

}  // namespace lossgrid
