// SPDX-License-Identifier: Apache-2.0
// ValueTerms: the terms of one token (harness/loss/terms_kernels.h) of `value`. With v the value of
// the state before a token, R its return, v0 its old value, c = min(max(v, v0 - e), v0 + e) and the
// share a of the token in the aggregate (aggregation.h)
//   L = scale sum_t a_t max(f(v_t - R_t), f(c_t - R_t)),  f(d) = d^2 / 2, or Huber's with `delta`:
//       delta (|d| - delta / 2) where |d| > delta
// Gradients are those of automatic differentiation: each of two equal losses has half of the
// gradient, and c passes it on the closed range [v0 - e, v0 + e].
#pragma once

#include <cmath>
#include <limits>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"
#include "impls/objectives/clipped_pg/aggregation/aggregation.h"

namespace lossgrid {

struct ValueOptions {
  double scale = 1;
  double clip = std::numeric_limits<double>::infinity();   // e; infinite: no clipping
  double delta = std::numeric_limits<double>::infinity();  // infinite: squares only
  Aggregation aggregation;

  constexpr bool clips() const { return clip < std::numeric_limits<double>::infinity(); }
};

/// Formulas of a token; a variant replaces some of the functions.
struct ValueFormulas {
  /// Returns the share of the unclipped loss.
  LOSSGRID_KERNEL static double share(double whole, double clipped) {
    return whole > clipped ? 1.0 : whole < clipped ? 0.0 : 0.5;
  }
  /// Returns Huber's loss of |d| > delta.
  LOSSGRID_KERNEL static double beyond(double size, double delta) {
    return delta * (size - delta / 2);
  }
};

template <class Formulas = ValueFormulas>
struct ValueTerms {
  enum Sum { kLoss, kTokens, kClipped, kReturns, kReturnsSquared, kResidualsSquared, kValues };
  enum Maximum { kNegatedLeast, kMost };  // value

  static constexpr int kSequenceSums = 1;  // valid tokens
  static constexpr int kSums = 7;
  static constexpr int kMaxima = 2;
  static constexpr bool kHasGradient = true;

  ValueOptions options;
  double token_share;  // share of every token; else the coefficient of a sequence

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& /*tokens*/, std::int64_t /*t*/,
                                       double* sums) const {
    sums[0] += 1;
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> coefficients, double* sums,
                                          double* maxima) const {
    if (tokens.valid[t] == 0) return {};
    const double value = tokens.terms[RowTerm::logsumexp][t];
    const double target = tokens.input(TokenInput::returns)[t];
    const double share = options.aggregation.differs_by_sequence()
                             ? coefficients.at(tokens.sequence[t], 0)
                             : token_share;
    const double weight = options.scale * share;
    const double residual = value - target;
    Loss loss{loss_of(residual), slope_of(residual)};
    if (options.clips()) {
      loss = larger_loss(value, target, tokens.input(TokenInput::old_values)[t], loss, sums);
    }
    sums[kLoss] += weight * loss.value;
    sums[kTokens] += 1;
    sums[kReturns] += target;
    sums[kReturnsSquared] += target * target;
    sums[kResidualsSquared] += residual * residual;
    sums[kValues] += value;
    raise_to(maxima[kNegatedLeast], -value);
    raise_to(maxima[kMost], value);
    TokenGradient gradient;
    gradient.terms[RowTerm::logsumexp] = as_gradient(weight * loss.slope);
    return gradient;
  }

 private:
  struct Loss {
    double value;
    double slope;  // derivative by the value of the state
  };

  LOSSGRID_KERNEL double loss_of(double d) const {
    const double size = d < 0 ? -d : d;
    return size > options.delta ? Formulas::beyond(size, options.delta) : d * d / 2;
  }

  LOSSGRID_KERNEL double slope_of(double d) const {
    return d < -options.delta ? -options.delta : d > options.delta ? options.delta : d;
  }

  LOSSGRID_KERNEL Loss larger_loss(double value, double target, double old_value, const Loss& whole,
                                   double* sums) const {
    const double low = old_value - options.clip;
    const double high = old_value + options.clip;
    const double clipped = value < low ? low : value > high ? high : value;
    const double loss = loss_of(clipped - target);
    const double slope = value == clipped ? slope_of(clipped - target) : 0;
    if (loss > whole.value) sums[kClipped] += 1;
    const double share = Formulas::share(whole.value, loss);
    return {share * whole.value + (1 - share) * loss, share * whole.slope + (1 - share) * slope};
  }
};

}  // namespace lossgrid
