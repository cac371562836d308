// SPDX-License-Identifier: Apache-2.0
// Views of the arrays that the steps of an objective read and write. Plain data only: nvcc compiles
// this header, and kernels call its constexpr functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "harness/problem/batch/row_terms.h"
#include "harness/problem/batch/token_inputs.h"

namespace lossgrid {

/// Positions [begin, end).
struct TokenRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// Rows of a pack as arrays of the same length, in any order and any part of the pack. Values of
/// invalid rows are arbitrary, even NaN: they are skipped by selection, never multiplied by 0.
struct ObjectiveTokens {
  std::span<const float> logprobs;
  // Columns by row term: the entropy with needs().row_statistics or needs().terms; vocab_min and
  // vocab_max with row_statistics; sum_p2, top1 and mean_logit with predictions; other terms with
  // needs().terms. Else empty.
  ByRowTerm<std::span<const float>> terms;
  std::span<const std::uint8_t> valid;                      // 1: trained on
  std::span<const std::uint8_t> real;                       // 1: true token, 0: pad
  std::span<const std::int32_t> sequence;                   // of the pack
  std::array<std::span<const float>, kTokenInputs> inputs;  // by TokenInput, or empty
  std::span<const float> weights = {};                      // Objective::token_weights, or empty
  // Row of each token in the padded pack, and selection (1 or 0) by row of the padded pack; both
  // empty unless needs().selects.
  std::span<const std::int32_t> places = {};
  std::span<const std::uint8_t> selected = {};  // set in step 3
  // Range by sequence that includes its tokens, and perhaps others, in a larger table of which
  // these rows begin at `first`; empty: unknown.
  std::span<const TokenRange> ranges = {};
  std::int64_t first = 0;

  constexpr std::span<const float> input(TokenInput which) const {
    return inputs[static_cast<std::size_t>(which)];
  }

  /// True if the objective has selected token t (Objective::select).
  constexpr bool is_selected(std::int64_t t) const {
    return !selected.empty() &&
           selected[static_cast<std::size_t>(places[static_cast<std::size_t>(t)])] != 0;
  }

  /// Returns the range of these rows that includes all tokens of a sequence.
  constexpr TokenRange token_range(std::int64_t sequence) const {
    const auto count = static_cast<std::int64_t>(valid.size());
    if (ranges.empty()) return {0, static_cast<std::int32_t>(count)};
    const TokenRange range = ranges[static_cast<std::size_t>(sequence)];
    return {static_cast<std::int32_t>(std::max<std::int64_t>(range.begin - first, 0)),
            static_cast<std::int32_t>(std::min(range.end - first, count))};
  }
};

/// Returns a gradient as float32, limited to the largest float32, because an infinite gradient
/// times a probability or a slope of 0 is NaN.
template <typename Real>
constexpr float as_gradient(Real x) {
  constexpr auto kLargest = static_cast<Real>(std::numeric_limits<float>::max());
  return static_cast<float>(x > kLargest ? kLargest : x < -kLargest ? -kLargest : x);
}

/// d loss / d numbers of one token.
struct TokenGradient {
  float logprob = 0;
  ByGradientTerm<float> terms = {};
};

/// Columns of d loss / d numbers by token. Columns of row terms are empty unless the objective
/// needs the term (ObjectiveNeeds::terms).
struct TokenGradients {
  std::span<float> logprob;
  ByGradientTerm<std::span<float>> terms = {};

  static constexpr std::size_t kColumns = 1 + kGradientTerms;

  constexpr std::array<std::span<float>, kColumns> columns() const {
    std::array<std::span<float>, kColumns> all{logprob};
    std::copy(terms.begin(), terms.end(), all.begin() + 1);
    return all;
  }
  /// Adds the gradient of token t.
  constexpr void add(std::size_t t, const TokenGradient& gradient) const {
    logprob[t] += gradient.logprob;
    for (int k = 0; k < kGradientTerms; ++k) {
      if (!terms.of[k].empty()) terms.of[k][t] += gradient.terms.of[k];
    }
  }
  /// Sets the gradient of token t, with +0 in place of -0.
  constexpr void set(std::size_t t, const TokenGradient& gradient) const {
    logprob[t] = 0.0f + gradient.logprob;
    for (int k = 0; k < kGradientTerms; ++k) {
      if (!terms.of[k].empty()) terms.of[k][t] = 0.0f + gradient.terms.of[k];
    }
  }
  TokenGradients part(std::size_t begin, std::size_t count) const {
    TokenGradients part;
    if (!logprob.empty()) part.logprob = logprob.subspan(begin, count);
    for (const RowTerm term : kAllGradientTerms) {
      if (!terms[term].empty()) part.terms[term] = terms[term].subspan(begin, count);
    }
    return part;
  }
};

/// [S, columns] numbers by sequence, a part of the columns of a row-major table.
template <typename T>
struct SequenceTable {
  T* data = nullptr;
  std::int64_t sequences = 0;
  int columns = 0;
  int stride = 0;

  constexpr SequenceTable() = default;
  constexpr SequenceTable(T* data, std::int64_t sequences, int columns, int stride)
      : data(data), sequences(sequences), columns(columns), stride(stride) {}
  /// Converts a mutable table to a read-only one.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  constexpr SequenceTable(const SequenceTable<U>& table)
      : SequenceTable(table.data, table.sequences, table.columns, table.stride) {}

  constexpr T& at(std::int64_t sequence, int column) const {
    return data[sequence * stride + column];
  }
  SequenceTable part(int first, int count) const {
    return {sequences == 0 ? data : data + first, sequences, count, stride};
  }
};

/// Totals of step 3. Maxima start at -infinity.
template <typename T>
struct ObjectiveTotals {
  std::span<T> sums;
  std::span<T> maxima;
};

}  // namespace lossgrid
