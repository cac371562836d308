// SPDX-License-Identifier: Apache-2.0
// Tokens that `clipped_pg` selects over a whole batch, plainly from docs/objectives.md ("Selections
// of tokens"), with lots by Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", 2011).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

/// Returns w0 2^32 + w1 of ten rounds.
inline std::uint64_t philox_lot(std::uint64_t seed, std::uint32_t sequence, std::uint32_t token) {
  std::array<std::uint32_t, 4> c{sequence, 0, token, 0};
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return (std::uint64_t{c[0]} << 32) + c[1];
}

/// Sorts tokens; those that are equal stay in the order of the batch.
template <class Before>
void sort_tokens(std::vector<std::size_t>& tokens, const Before& before) {
  std::sort(tokens.begin(), tokens.end(),
            [&](std::size_t a, std::size_t b) { return before(a, b) || (!before(b, a) && a < b); });
}

/// Returns the first `count` of `tokens` in the order of `before`.
template <class Before>
std::vector<bool> first_of(const Case& of, std::vector<std::size_t> tokens, double count,
                           const Before& before) {
  sort_tokens(tokens, before);
  std::vector<bool> selected(of.tokens.size(), false);
  for (std::size_t j = 0; j < tokens.size() && static_cast<double>(j) < count; ++j) {
    selected[tokens[j]] = true;
  }
  return selected;
}

/// Returns the tokens that the options select. `is_clipped`: of tokens that the clip of PPO acts
/// on.
inline std::vector<bool> selected_tokens(const Case& of, const ByToken& p, const Rows& held,
                                         const std::vector<bool>& is_clipped) {
  const Options& options = of.options;
  const std::string loss = options.name("policy_loss", "ppo");
  const auto n = static_cast<double>(of.tokens.size());
  const double mean_a =
      sum_of(by_token(of, [&](std::size_t k) { return of.tokens[k].advantage; })) / n;
  const double mean_x = sum_of(by_token(of, [&](std::size_t k) { return held[k].x; })) / n;
  const ByToken covariance = by_token(
      of, [&](std::size_t k) { return (of.tokens[k].advantage - mean_a) * (held[k].x - mean_x); });
  std::vector<std::size_t> all(of.tokens.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto share = [&](const char* option) {
    return std::max(1.0, std::floor(options.number(option, 0.0002) * n));
  };
  if (loss == "kl_cov") {
    return first_of(of, all, share("kl_cov_ratio"),
                    [&](std::size_t a, std::size_t b) { return covariance[a] > covariance[b]; });
  }
  if (loss == "clip_cov") {
    std::erase_if(all, [&](std::size_t k) {
      return is_clipped[k] || covariance[k] <= options.number("clip_cov_lb", 1) ||
             covariance[k] >= options.number("clip_cov_ub", 5);
    });
    const auto lot = [&](std::size_t k) {
      return philox_lot(static_cast<std::uint64_t>(options.number("clip_cov_seed", 0)),
                        static_cast<std::uint32_t>(of.tokens[k].sequence),
                        static_cast<std::uint32_t>(of.tokens[k].position));
    };
    return first_of(of, all, share("clip_cov_ratio"),
                    [&](std::size_t a, std::size_t b) { return lot(a) < lot(b); });
  }
  const double quantile = options.number("top_entropy_quantile", 1);
  if (quantile < 1) {
    std::vector<double> sorted = by_token(of, [&](std::size_t k) { return held[k].entropy; });
    std::sort(sorted.begin(), sorted.end());
    const double place = (1 - quantile) * (n - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    const double threshold =
        sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
    std::vector<bool> dropped;
    for (const Row& row : held) dropped.push_back(row.entropy < threshold);
    return dropped;
  }
  std::vector<bool> dropped(of.tokens.size(), false);
  if (const auto threshold = options.maybe("m2_threshold", std::nullopt)) {
    const auto m = [&](std::size_t k) { return std::pow(p[k] - of.tokens[k].generation, 2); };
    sort_tokens(all, [&](std::size_t a, std::size_t b) { return m(a) > m(b); });
    for (std::size_t j = 0; j + 1 < all.size(); ++j) {
      double sum = 0;
      for (std::size_t rest = j; rest < all.size(); ++rest) sum += m(all[rest]);
      if (sum / static_cast<double>(all.size() - j) < *threshold) break;
      dropped[all[j]] = true;
    }
  }
  return dropped;
}

inline std::vector<OptionCase> selection_cases() {
  return {
      {"policy_loss=clip_cov clip_cov_ratio=0.2 clip_cov_lb=-0.6 clip_cov_ub=1.5 clip_cov_seed=3",
       "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
      {"policy_loss=kl_cov kl_cov_ratio=0.3 ppo_kl_coef=0.6"},
      {"top_entropy_quantile=0.4"},
      {"m2_threshold=0.01"}};
}

}  // namespace lossgrid::plain
