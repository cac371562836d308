// SPDX-License-Identifier: Apache-2.0
// `ScaleFactor`: symbolic factor of a loss or a gradient in a training stack, a product of powers
// of the numbers of dp ranks, of cp ranks and of microbatches. Text form: dp, cp, n_mb and 1 joined
// by
// * and /, from left to right, with parentheses: "dp*n_mb/cp", "1/(dp*cp)".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lossgrid {

/// Sizes for which a factor is evaluated, each at least 1.
struct ScaleSizes {
  std::int64_t dp = 1;
  std::int64_t cp = 1;
  std::int64_t n_mb = 1;  // microbatches of a dp rank
};

/// Product dp^a * cp^b * n_mb^c; the members hold the exponents a, b, c. The default is 1.
struct ScaleFactor {
  int dp = 0;
  int cp = 0;
  int n_mb = 0;

  double value(const ScaleSizes& sizes) const;
  /// True if the factor is exactly 1, that is if all primes cancel, even where `value` would round.
  bool is_one(const ScaleSizes& sizes) const;
  friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

ScaleFactor operator*(const ScaleFactor& a, const ScaleFactor& b);

/// Returns the shortest text: "n_mb/(cp*cp)", "1". parse_scale reads it back.
std::string format_scale(const ScaleFactor& factor);

/// Parses a factor with exponents of at most 4 in size. Throws bad_input that names `what` and the
/// rule.
ScaleFactor parse_scale(std::string_view text, std::string_view what);

}  // namespace lossgrid
