// SPDX-License-Identifier: Apache-2.0
// `TeacherProduct`: logits of a teacher that is given as hidden states and a weight. Their product,
// in float32 with float32 accumulation, is made for some rows at a time, so that only these logits
// exist. Rows that predict nothing are not read: their logits are 0. The product has no gradient.
// It is empty if the teacher's logits are given.
#pragma once

#include <memory>
#include <vector>

#include "impls/toolkit/strategy.h"

namespace lossgrid {

class TeacherProduct {
 public:
  /// Makes logits for `rows`, which must outlive the object, at most `capacity` rows at a time.
  /// With `over_cp`, `rows` has the rows of all CP ranks, one rank after the other.
  TeacherProduct(const LossProblem& problem, RankContext context, const Steps& steps,
                 const RowTable& rows, std::int64_t capacity, bool over_cp = false);
  ~TeacherProduct();
  static std::int64_t bytes(const LossProblem& problem, std::int64_t capacity,
                            bool over_cp = false);
  /// Adds the collectives of gather().
  static void add_gather(const LossProblem& problem, PhaseCost& phase, bool over_cp = false);
  /// Adds the FLOPs of making the logits of `rows` rows once.
  static void add_flops(const LossProblem& problem, std::int64_t rows, PhaseCost& phase);

  /// Returns the rows that a strategy without its own chunks processes at a time: all of the rank's
  /// rows, or the rows of an lm_head's chunk if the teacher's logits are computed.
  static std::int64_t chunk_rows(const LossProblem& problem);
  /// Returns the rank's rows in ranges of chunk_rows() rows; one range if there are no rows.
  static std::vector<RowRange> chunks(const LossProblem& problem);

  /// Takes the hidden states and the weight of `inputs`, and gathers hidden states from ranks with
  /// other rows. Collective.
  void gather(const LossInputs& inputs);

  /// Makes the teacher's logits in `logits`, whose rows begin at row `begin` of the table. They are
  /// valid until the next call.
  void make(std::int64_t begin, LogitsRows& logits);

 private:
  class Maker;

  std::unique_ptr<Maker> maker_;  // null if the logits are given
};

}  // namespace lossgrid
