// SPDX-License-Identifier: Apache-2.0
// Sums and means over the tokens of a sequence, for the parts of `clipped_pg`. Numbers by valid
// token; a token of a sequence that has one number for all has that.
#pragma once

#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"

namespace lossgrid::plain {

using ByToken = std::vector<double>;

/// Returns for each token the sum over the tokens of its sequence.
inline ByToken sequence_sums(const Case& of, const ByToken& terms) {
  std::vector<double> sums(static_cast<std::size_t>(of.sequences), 0.0);
  for (std::size_t k = 0; k < terms.size(); ++k) sums[of.tokens[k].sequence] += terms[k];
  return by_token(of, [&](std::size_t k) { return sums[of.tokens[k].sequence]; });
}

inline ByToken sequence_means(const Case& of, const ByToken& terms) {
  ByToken sums = sequence_sums(of, terms);
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] /= of.trained[of.tokens[k].sequence];
  return sums;
}

}  // namespace lossgrid::plain
