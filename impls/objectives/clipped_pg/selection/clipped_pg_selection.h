// SPDX-License-Identifier: Apache-2.0
// select_tokens: the selection of `clipped_pg` (selection_options.h) among the valid
// tokens of a pack, on the host. Every rank makes it for itself, of the same numbers in the same
// order. Of equal numbers the first token of the batch comes first.
//
// Sources: Clip-Cov and KL-Cov (Cui et al., 2025; verl), the top-entropy quantile (Wang et al.,
// 2025; TRL), M2PO (Zheng et al., 2025; AReaL).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "harness/core/philox.h"
#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"

namespace lossgrid {

struct PackedBatch;

/// A valid token. The table of all of them is on the heap, which has 64 bytes for a token
/// (harness/runner/rank/heap_check.h).
struct SelectionToken {
  std::int64_t place = 0;     // its row of the padded pack
  std::int32_t sequence = 0;  // of the pack
  std::int32_t position = 0;  // in its sequence
  double number = 0;          // log-probability or entropy, whichever the selection is by
  double prev = 0;            // of the proximal policy
  float advantage = 0;
  float generation = 0;
  float version = 0;
};
static_assert(sizeof(SelectionToken) < 64);
using SelectionTokens = std::vector<SelectionToken>;

/// Returns the valid tokens in the order of the batch, with inputs that are missing as 0;
/// `numbers`: by row of the padded pack, or empty.
SelectionTokens selection_tokens(const PackedBatch& batch, std::span<const double> numbers);

/// The pieces of selections, on the host.
struct SelectionFormulas {
  /// Number of tokens that a share of `count` is.
  static std::int64_t share_of_tokens(double ratio, std::int64_t count) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(ratio * static_cast<double>(count)));
  }

  /// Covariances of tokens; `rows`: of the padded pack.
  static std::vector<double> covariances(const SelectionTokens& tokens, std::int64_t /*rows*/) {
    double advantage = 0;
    double logprob = 0;
    for (const SelectionToken& token : tokens) {
      advantage += token.advantage;
      logprob += token.number;
    }
    const auto count = static_cast<double>(tokens.size());
    std::vector<double> covariances;
    for (const SelectionToken& token : tokens) {
      covariances.push_back((token.advantage - advantage / count) *
                            (token.number - logprob / count));
    }
    return covariances;
  }

  /// True if PPO takes the clipped ratio of a token, which is another one.
  static bool is_clipped(double advantage, double rho, const ClippedPgOptions& options) {
    return advantage > 0 ? rho > options.highest_ratio()
                         : advantage < 0 && rho < options.lowest_ratio();
  }

  /// The lot of a token: the lowest ones are drawn.
  static std::uint64_t lot(const SelectionToken& token, double seed) {
    const RandomStream random(static_cast<std::uint64_t>(seed), 0);
    const PhiloxBlock words = random.block(static_cast<std::uint64_t>(token.sequence),
                                           static_cast<std::uint32_t>(token.position));
    return std::uint64_t{words[0]} << 32 | words[1];
  }

  /// Indices of the numbers from the largest on.
  static std::vector<std::size_t> largest_first(const std::vector<double>& numbers) {
    std::vector<std::size_t> order(numbers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return numbers[a] > numbers[b]; });
    return order;
  }

  /// Entropies among which the quantile is; `rows`: of the padded pack.
  static std::vector<double> entropies(const SelectionTokens& tokens, std::int64_t /*rows*/) {
    std::vector<double> entropies;
    for (const SelectionToken& token : tokens) entropies.push_back(token.number);
    return entropies;
  }

  /// Quantile of ascending numbers, linear between two of them.
  static double quantile(const std::vector<double>& numbers, double level) {
    const double at = static_cast<double>(numbers.size() - 1) * level;
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, numbers.size() - 1);
    return numbers[below] + (at - std::floor(at)) * (numbers[above] - numbers[below]);
  }

  static bool is_high_entropy(double entropy, double threshold) { return entropy >= threshold; }

  /// Number of descending numbers to drop from the first on until the mean of the rest is below the
  /// threshold; the last one stays.
  static std::size_t dropped_second_moments(const std::vector<double>& numbers, double threshold) {
    double sum = 0;
    std::size_t dropped = numbers.size() - 1;
    for (std::size_t rest = 1; rest <= numbers.size(); ++rest) {
      sum += numbers[numbers.size() - rest];
      if (sum / static_cast<double>(rest) < threshold) dropped = numbers.size() - rest;
    }
    return dropped;
  }
};

/// Returns 0 for a token whose policy term its selection drops, else `keep`.
template <typename Real>
LOSSGRID_KERNEL Real kept_by_selection(const ClippedPgOptions& options,
                                       const PolicyToken<Real>& token, Real keep) {
  return token.is_selected && !options.is_kl_cov() ? Real(0) : keep;
}

/// Returns the indices of the tokens that clip_cov drops.
template <class Formulas>
std::vector<std::size_t> drawn_by_lot(const ClippedPgOptions& options,
                                      const SelectionTokens& tokens,
                                      const std::vector<double>& covariances) {
  const SelectionOptions& selecting = options;
  std::vector<std::pair<std::uint64_t, std::size_t>> candidates;  // lots and indices
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const SelectionToken& token = tokens[k];
    const double rho =
        Formulas::ratio(Formulas::bounded_log(token.number - token.prev, options).value);
    const bool is_candidate = covariances[k] > selecting.clip_cov_lb &&
                              covariances[k] < selecting.clip_cov_ub &&
                              !Formulas::is_clipped(token.advantage, rho, options);
    if (is_candidate) {
      candidates.emplace_back(Formulas::lot(token, selecting.clip_cov_seed), k);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  const std::int64_t count =
      Formulas::share_of_tokens(selecting.clip_cov_ratio, static_cast<std::int64_t>(tokens.size()));
  candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(count)));
  std::vector<std::size_t> drawn;
  for (const auto& [lot, k] : candidates) drawn.push_back(k);
  return drawn;
}

/// Returns the indices of the tokens that are not of high entropy.
template <class Formulas>
std::vector<std::size_t> low_entropies(const ClippedPgOptions& options,
                                       const SelectionTokens& tokens, std::int64_t rows) {
  std::vector<double> entropies = Formulas::entropies(tokens, rows);
  std::sort(entropies.begin(), entropies.end());
  const double threshold = Formulas::quantile(entropies, 1 - options.top_entropy_quantile);
  std::vector<std::size_t> low;
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    if (!Formulas::is_high_entropy(tokens[k].number, threshold)) low.push_back(k);
  }
  return low;
}

/// Returns the indices of the tokens that M2PO drops.
template <class Formulas>
std::vector<std::size_t> large_second_moments(const ClippedPgOptions& options,
                                              const SelectionTokens& tokens) {
  std::vector<double> moments;
  for (const SelectionToken& token : tokens) {
    const double distance = static_cast<double>(token.generation) - token.prev;
    moments.push_back(distance * distance);
  }
  std::vector<std::size_t> order = Formulas::largest_first(moments);
  std::vector<double> ordered;
  for (const std::size_t k : order) ordered.push_back(moments[k]);
  order.resize(Formulas::dropped_second_moments(ordered, *options.m2_threshold));
  return order;
}

/// Returns the indices of selected tokens; there are some tokens.
template <class Formulas>
std::vector<std::size_t> selected_of(const ClippedPgOptions& options, const SelectionTokens& tokens,
                                     std::int64_t rows) {
  switch (options.selection()) {
    case Selection::clip_cov:
      return drawn_by_lot<Formulas>(options, tokens, Formulas::covariances(tokens, rows));
    case Selection::kl_cov: {
      std::vector<std::size_t> order = Formulas::largest_first(Formulas::covariances(tokens, rows));
      order.resize(static_cast<std::size_t>(Formulas::share_of_tokens(
          options.kl_cov_ratio, static_cast<std::int64_t>(order.size()))));
      return order;
    }
    case Selection::top_entropy:
      return low_entropies<Formulas>(options, tokens, rows);
    case Selection::second_moment:
      return large_second_moments<Formulas>(options, tokens);
    default:
      return {};
  }
}

/// Runs Objective::select.
template <class Formulas>
void select_tokens(const ClippedPgOptions& options, const SelectionTokens& tokens,
                   std::span<std::uint8_t> selected) {
  std::fill(selected.begin(), selected.end(), std::uint8_t{0});
  if (tokens.empty()) return;
  const auto rows = static_cast<std::int64_t>(selected.size());
  for (const std::size_t k : selected_of<Formulas>(options, tokens, rows)) {
    selected[static_cast<std::size_t>(tokens[k].place)] = 1;
  }
}

}  // namespace lossgrid
