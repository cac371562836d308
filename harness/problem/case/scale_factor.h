// SPDX-License-Identifier: Apache-2.0
// What a training stack multiplies a loss or a gradient by, with its sizes left open: a product of
// powers of the number of dp ranks, of CP ranks and of microbatches. Text form: dp, cp, n_mb and 1
// joined by * and /, from left to right, with parentheses: "dp*n_mb/cp", "1/(dp*cp)".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lossgrid {

/// Of the grid and the batch that a factor is applied on, all from 1 on.
struct ScaleSizes {
  std::int64_t dp = 1;
  std::int64_t cp = 1;
  std::int64_t n_mb = 1;  // microbatches of a dp rank
};

/// dp^dp cp^cp n_mb^n_mb; without exponents 1.
struct ScaleFactor {
  int dp = 0;
  int cp = 0;
  int n_mb = 0;

  double value(const ScaleSizes& sizes) const;
  /// Exactly, also where `value` would round: whether all primes cancel.
  bool is_one(const ScaleSizes& sizes) const;
  friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

ScaleFactor operator*(const ScaleFactor& a, const ScaleFactor& b);

/// The shortest text: "n_mb/(cp*cp)", "1". parse_scale reads it back.
std::string format_scale(const ScaleFactor& factor);

/// Throws bad_input that names `what` and the rule. Exponents are at most 4 in size.
ScaleFactor parse_scale(std::string_view text, std::string_view what);

}  // namespace lossgrid
