// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the tokens of a batch on a tape, and TruthPart, the base
// of the parts of its formula, which share them.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/loss/objective.h"
#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"
#include "impls/objectives/gradient_sides.h"

namespace lossgrid {

struct TrueToken {
  std::int64_t row = 0;
  Var x;
  Var entropy;
  Var p;
  double q = 0;
  double f = 0;
  double advantage = 0;
  Var anchor;  // that the ratio is taken to: p, or q

  bool has_generation() const { return std::isfinite(q); }
};

/// State of one pass over the formula.
struct TruthState {
  const ClippedPgOptions& options;
  const PackedBatch& batch;
  const Sides sides;
  ByToken<TrueToken> tokens = {};
  ObjectiveTruth truth = {};
  bool straddles = false;  // a switch may be on either side
};

class TruthPart {
 protected:
  explicit TruthPart(TruthState& state)
      : options_(state.options),
        batch_(state.batch),
        sides_(state.sides),
        tokens_(state.tokens),
        truth_(state.truth),
        straddles_(state.straddles) {}

  const Denominators& counts() const { return batch_.denominators; }

  /// Returns f(token) of every valid token.
  template <typename T, typename F>
  ByToken<T> each(F&& f) const {
    ByToken<T> results(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for (const TrueToken& token : tokens_[i]) results[i].push_back(f(token));
    }
    return results;
  }

  const ClippedPgOptions& options_;
  const PackedBatch& batch_;
  const Sides& sides_;
  ByToken<TrueToken>& tokens_;
  ObjectiveTruth& truth_;
  bool& straddles_;
};

}  // namespace lossgrid
