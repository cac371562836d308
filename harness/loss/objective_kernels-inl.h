// SPDX-License-Identifier: Apache-2.0
// Kernels of an objective's terms (terms_kernels.h) as code of a block. The order of additions
// depends on the places of tokens and not on timing, so that every run has the same bits.
#pragma once

#include <algorithm>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

/// Array of kCount numbers, where kCount may be 0.
template <int kCount>
struct Numbers {
  double values[std::max(kCount, 1)];

  LOSSGRID_KERNEL static Numbers all(double value) {
    Numbers numbers;
    for (double& number : numbers.values) number = value;
    return numbers;
  }
  LOSSGRID_KERNEL void add(const Numbers& other) {
    for (int k = 0; k < kCount; ++k) values[k] += other.values[k];
  }
  LOSSGRID_KERNEL void raise(const Numbers& other) {
    for (int k = 0; k < kCount; ++k) raise_to(values[k], other.values[k]);
  }
};

/// Totals of some tokens.
template <class Terms>
struct PartialTotals {
  Numbers<Terms::kSums> sums;
  Numbers<Terms::kMaxima> maxima;

  LOSSGRID_KERNEL static PartialTotals none() {
    return {Numbers<Terms::kSums>::all(0.0),
            Numbers<Terms::kMaxima>::all(-static_cast<double>(infinity()))};
  }
};

/// Adds up one sequence per block: the threads of the block go through the token range of the
/// sequence.
template <class Terms>
struct SequenceSumsKernel {
  Terms terms;
  ObjectiveTokens tokens;
  SequenceTable<double> sums;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    using Sums = Numbers<Terms::kSequenceSums>;
    const std::int64_t sequence = block.index();
    const TokenRange range = tokens.token_range(sequence);
    const auto own = block.each([&](int thread) {
      Sums of_thread = Sums::all(0.0);
      for (std::int64_t t = range.begin + thread; t < range.end; t += block.threads()) {
        if (tokens.sequence[t] != sequence || tokens.valid[t] == 0) continue;
        terms.add_to_sequence(tokens, t, of_thread.values);
      }
      return of_thread;
    });
    const Sums whole = block.reduce(own, Sums::all(0.0), [](Sums a, const Sums& b) {
      a.add(b);
      return a;
    });
    block.one([&] {
      for (int k = 0; k < sums.columns; ++k) sums.at(sequence, k) += whole.values[k];
    });
  }
};

/// Handles tokens in a grid-stride loop and writes one block's partial totals.
template <class Terms>
struct TokenTermsKernel {
  Terms terms;
  ObjectiveTokens tokens;
  SequenceTable<const double> coefficients;
  TokenGradients gradients;
  std::int64_t blocks;
  double* partials;  // [blocks, sums and maxima]

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    using Totals = PartialTotals<Terms>;
    const auto count = static_cast<std::int64_t>(tokens.valid.size());
    const auto own = block.each([&](int thread) {
      Totals of_thread = Totals::none();
      const std::int64_t threads = block.threads();
      for (std::int64_t t = block.index() * threads + thread; t < count; t += blocks * threads) {
        const TokenGradient gradient = terms.add_token(
            tokens, t, coefficients, of_thread.sums.values, of_thread.maxima.values);
        if constexpr (Terms::kHasGradient) gradients.set(static_cast<std::size_t>(t), gradient);
      }
      return of_thread;
    });
    const Totals whole = block.reduce(own, Totals::none(), [](Totals a, const Totals& b) {
      a.sums.add(b.sums);
      a.maxima.raise(b.maxima);
      return a;
    });
    block.one([&] {
      double* partial = partials + block.index() * (Terms::kSums + Terms::kMaxima);
      for (int k = 0; k < Terms::kSums; ++k) partial[k] = whole.sums.values[k];
      for (int k = 0; k < Terms::kMaxima; ++k) partial[Terms::kSums + k] = whole.maxima.values[k];
    });
  }
};

/// Adds up the partial totals in one block. For each number, kParts threads each read the totals of
/// every kParts-th block, so that a thread has few serial loads; then one thread adds their sums.
template <class Terms>
struct TotalsKernel {
  static constexpr int kNumbers = Terms::kSums + Terms::kMaxima;
  static constexpr int kParts = 16;
  static constexpr std::size_t kSharedBytes = sizeof(double) * kNumbers * kParts;
  std::int64_t blocks;
  const double* partials;
  ObjectiveTotals<double> totals;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    auto* parts = reinterpret_cast<double*>(block.shared());  // [kNumbers, kParts]
    block.run([&](int thread) {
      for (int k = thread; k < kNumbers * kParts; k += block.threads()) {
        parts[k] = joined(k / kParts, partials + k / kParts + k % kParts * kNumbers,
                          (blocks - k % kParts + kParts - 1) / kParts, kParts * kNumbers);
      }
    });
    block.sync();
    block.run([&](int thread) {
      if (thread >= kNumbers) return;
      const double whole = joined(thread, parts + thread * kParts, kParts, 1);
      if (thread < Terms::kSums) {
        totals.sums[thread] += whole;
      } else {
        raise_to(totals.maxima[thread - Terms::kSums], whole);
      }
    });
  }

 private:
  static_assert(kNumbers <= kBlockThreads);

  /// Returns the sum or the maximum of `count` values of a number, `stride` apart; without values
  /// the neutral element.
  LOSSGRID_KERNEL static double joined(int number, const double* values, std::int64_t count,
                                       std::int64_t stride) {
    double whole = number < Terms::kSums ? 0.0 : -static_cast<double>(infinity());
    for (std::int64_t k = 0; k < count; ++k) {
      const double next = values[k * stride];
      if (number < Terms::kSums) {
        whole += next;
      } else {
        raise_to(whole, next);
      }
    }
    return whole;
  }
};

/// Launch of Objective::sequence_sums.
template <class Terms>
struct LaunchSequenceSums {
  static constexpr const char* kName = "sequence_sums";
  Terms terms;
  ObjectiveTokens tokens;
  SequenceTable<double> sums;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(SequenceSumsKernel<Terms>{terms, tokens, sums}, sums.sequences, 0);
  }
};

/// Launch of Objective::token_terms.
template <class Terms>
struct LaunchTokenTerms {
  static constexpr const char* kName = "token_terms";
  static constexpr bool kHasTotals = Terms::kSums + Terms::kMaxima > 0;
  Terms terms;
  ObjectiveTokens tokens;
  SequenceTable<const double> coefficients;
  ObjectiveTotals<double> totals;
  TokenGradients gradients;
  std::int64_t blocks;
  double* partials;  // [blocks, sums and maxima]

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(TokenTermsKernel<Terms>{terms, tokens, coefficients, gradients, blocks, partials},
             blocks, 0);
    if constexpr (kHasTotals) {
      using Totals = TotalsKernel<Terms>;
      launcher(Totals{blocks, partials, totals}, 1, Totals::kSharedBytes);
    }
  }
};

}  // namespace lossgrid
