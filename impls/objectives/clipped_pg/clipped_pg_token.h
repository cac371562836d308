// SPDX-License-Identifier: Apache-2.0
// The numbers that the parts of `clipped_pg` read: of one token, and of its sequence. nvcc compiles
// this header.
#pragma once

#include <cstdint>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

/// Log-probabilities of one token under the current policy, the previous one, the one that
/// generated it and the reference; a number that the options do not need is 0.
template <typename Real>
struct PolicyToken {
  Real x = 0, p = 0, q = 0, f = 0;
  Real advantage = 0;
  bool is_selected = false;
  Real share = 0;   // of x in p
  Real anchor = 0;  // that the ratio is taken to

  LOSSGRID_KERNEL Real log_weight() const { return p - q; }
};

/// The coefficients of the sequence of one token.
template <typename Real>
struct SequenceCoefficients {
  SequenceTable<const double> table;
  std::int64_t sequence = 0;

  LOSSGRID_KERNEL Real at(int column) const {
    return static_cast<Real>(table.at(sequence, column));
  }
  /// Returns `absent` where the options need no such column.
  LOSSGRID_KERNEL Real at(int column, Real absent) const {
    return column >= 0 ? at(column) : absent;
  }
};

/// The sums of one sequence, and its coefficients, which are made of them. On the host.
template <typename Real>
struct SequenceRow {
  SequenceTable<const double> sums;
  SequenceTable<double> coefficients;
  std::int64_t sequence = 0;

  /// Returns 0 where the options need no such column.
  Real sum(int column) const {
    return column >= 0 ? static_cast<Real>(sums.at(sequence, column)) : Real(0);
  }
  void set(int column, Real value) const {
    if (column >= 0) coefficients.at(sequence, column) = value;
  }
};

}  // namespace lossgrid
