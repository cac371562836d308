// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/selection/clipped_pg_truth_selection.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/core/philox.h"

namespace lossgrid {
namespace {

/// The least and the largest that a right computation may count, and what the numbers count.
struct Count {
  std::int64_t least = 0;
  std::int64_t largest = 0;
  std::int64_t value = 0;
};

class SelectionTruth {
 public:
  SelectionTruth(const ClippedPgOptions& options, const ByToken<SelectableToken>& tokens, Side side,
                 std::map<std::string, std::int64_t>& branches)
      : options_(options), side_(side), branches_(branches) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (const SelectableToken& token : tokens[i]) {
        tokens_.push_back(token);
        lots_.push_back(lot(i, token));
      }
    }
  }

  /// Returns for every token 1, 0 or both.
  std::vector<Enclosure> selected() {
    switch (options_.selection()) {
      case Selection::clip_cov:
        return drawn();
      case Selection::kl_cov:
        return of_largest_covariance();
      case Selection::top_entropy:
        return of_low_entropy();
      case Selection::second_moment:
        return of_large_second_moment();
      default:
        return std::vector<Enclosure>(tokens_.size(), 0.0);
    }
  }

  /// Returns `selected` on the side that is to be taken.
  Enclosure on_side(const Enclosure& selected) {
    if (selected.is_exact()) return selected;
    straddles_ = true;
    if (side_ == Side::either) return selected;
    return side_ == Side::second ? 1.0 : 0.0;
  }

  bool straddles() const { return straddles_; }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()); }

  std::uint64_t lot(std::size_t sequence, const SelectableToken& token) const {
    const auto seed = static_cast<std::uint64_t>(options_.clip_cov_seed);
    const PhiloxBlock words = philox4x32(
        {static_cast<std::uint32_t>(sequence), 0, static_cast<std::uint32_t>(token.position), 0},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return (std::uint64_t{words[0]} << 32) + words[1];
  }

  void count_branch(const char* name, bool is_taken) { branches_[name] += is_taken ? 1 : 0; }

  static Enclosure truth_of(bool value, bool certainly, bool possibly) {
    Enclosure result = value ? 1.0 : 0.0;
    result.low = certainly ? 1 : 0;
    result.high = possibly ? 1 : 0;
    return result;
  }

  /// Returns 1 for tokens that are among the first ones: fewer than `limit` others precede them.
  /// by_value(a, b): true if token a precedes b by the numbers themselves; by_interval(a, b): +1 if
  /// it does in any case, 0 if it may, -1 if not.
  template <typename ByValue, typename ByInterval>
  std::vector<Enclosure> first_ones(const Count& limit, ByValue by_value,
                                    ByInterval by_interval) const {
    std::vector<Enclosure> first;
    for (std::size_t k = 0; k < tokens_.size(); ++k) {
      Count before;
      for (std::size_t other = 0; other < tokens_.size(); ++other) {
        if (other == k) continue;
        const int order = by_interval(other, k);
        before.least += order > 0 ? 1 : 0;
        before.largest += order >= 0 ? 1 : 0;
        before.value += by_value(other, k) ? 1 : 0;
      }
      first.push_back(truth_of(before.value < limit.value, before.largest < limit.least,
                               before.least < limit.largest));
    }
    return first;
  }

  static Count exactly(std::int64_t count) { return {count, count, count}; }

  /// Returns the number of tokens that a share of all is.
  Count share(double ratio) const {
    return exactly(std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::floor(ratio * static_cast<double>(count())))));
  }

  std::vector<Enclosure> covariances() const {
    std::vector<Enclosure> advantages;
    std::vector<Enclosure> logprobs;
    for (const SelectableToken& token : tokens_) {
      advantages.push_back(token.advantage);
      logprobs.push_back(token.x);
    }
    const Enclosure mean_advantage = sum(advantages) * reciprocal(count());
    const Enclosure mean_logprob = sum(logprobs) * reciprocal(count());
    std::vector<Enclosure> covariances;
    for (std::size_t k = 0; k < tokens_.size(); ++k) {
      covariances.push_back((advantages[k] - mean_advantage) * (logprobs[k] - mean_logprob));
    }
    return covariances;
  }

  /// Order from the largest number on. Numbers that may be the same have any order.
  static int larger(const Enclosure& a, const Enclosure& b) {
    return a.low > b.high ? 1 : a.high < b.low ? -1 : 0;
  }

  std::vector<Enclosure> of_largest_covariance() {
    const std::vector<Enclosure> numbers = covariances();
    std::vector<Enclosure> penalised = first_ones(
        share(options_.kl_cov_ratio),
        [&](std::size_t a, std::size_t b) {
          return numbers[a].value > numbers[b].value ||
                 (numbers[a].value == numbers[b].value && a < b);
        },
        [&](std::size_t a, std::size_t b) { return larger(numbers[a], numbers[b]); });
    for (const Enclosure& is_penalised : penalised) {
      count_branch("kl_cov_penalised", is_penalised.value > 0);
      count_branch("kl_cov_free", is_penalised.value == 0);
    }
    return penalised;
  }

  /// Returns 1 if max(-A rho, -A clip(rho)) is the clipped one and larger.
  Enclosure is_clipped(const SelectableToken& token) const {
    const Enclosure near = rounded(token.ratio, 4);  // rho, the bound and two products
    if (token.advantage > 0) return is_positive(near - constant(1 + options_.ratio_clip_max));
    if (token.advantage < 0) return is_positive(constant(1 - options_.ratio_clip_min) - near);
    return 0.0;
  }

  std::vector<Enclosure> drawn() {
    const std::vector<Enclosure> numbers = covariances();
    const SelectionOptions& selecting = options_;
    std::vector<Enclosure> candidates;
    for (std::size_t k = 0; k < tokens_.size(); ++k) {
      const Enclosure above_low = is_positive(numbers[k] - constant(selecting.clip_cov_lb));
      const Enclosure below_high = is_positive(constant(selecting.clip_cov_ub) - numbers[k]);
      const Enclosure clipped = is_clipped(tokens_[k]);
      candidates.push_back(min(min(above_low, below_high), opposite(clipped)));
      count_branch("clip_cov_below", above_low.value == 0);
      count_branch("clip_cov_above", below_high.value == 0);
      count_branch("clip_cov_clipped",
                   above_low.value > 0 && below_high.value > 0 && clipped.value > 0);
    }
    const std::vector<Enclosure> first = first_ones(
        share(selecting.clip_cov_ratio),
        [&](std::size_t a, std::size_t b) {
          return candidates[a].value > 0 && is_drawn_before(a, b);
        },
        [&](std::size_t a, std::size_t b) {
          if (!is_drawn_before(a, b) || candidates[a].high == 0) return -1;
          return candidates[a].low > 0 ? 1 : 0;
        });
    std::vector<Enclosure> drawn;
    for (std::size_t k = 0; k < tokens_.size(); ++k) {
      drawn.push_back(min(candidates[k], first[k]));
      count_branch("clip_cov_dropped", drawn[k].value > 0);
      count_branch("clip_cov_spared", candidates[k].value > 0 && first[k].value == 0);
    }
    return drawn;
  }

  bool is_drawn_before(std::size_t a, std::size_t b) const {
    return lots_[a] < lots_[b] || (lots_[a] == lots_[b] && a < b);
  }

  /// Linear between two order statistics, a threshold keeps a token as the upper one would: kept
  /// are the tokens of which not more than count - 1 - rank others have more.
  std::vector<Enclosure> of_low_entropy() {
    const double level = 1 - options_.top_entropy_quantile;
    const double at = static_cast<double>(count() - 1) * level;
    // Float32 may put a place beside the rank that it is all but on.
    const bool is_dyadic = std::ldexp(level, 16) == std::floor(std::ldexp(level, 16));
    const double around = is_dyadic ? 0 : static_cast<double>(count()) * 0x1p-21;
    const auto kept_of = [&](double rank) {
      return count() - static_cast<std::int64_t>(std::ceil(rank));
    };
    const Count kept{kept_of(std::min(at + around, static_cast<double>(count() - 1))),
                     kept_of(std::max(at - around, 0.0)), kept_of(at)};
    std::vector<Enclosure> low = first_ones(
        kept,
        [&](std::size_t a, std::size_t b) {
          return tokens_[a].entropy.value > tokens_[b].entropy.value;
        },
        [&](std::size_t a, std::size_t b) {
          const Enclosure& other = tokens_[a].entropy;
          const Enclosure& own = tokens_[b].entropy;
          return other.low > own.high ? 1 : other.high <= own.low ? -1 : 0;
        });
    for (Enclosure& is_low : low) {
      is_low = opposite(is_low);
      count_branch("top_entropy_dropped", is_low.value > 0);
      count_branch("top_entropy_kept", is_low.value == 0);
    }
    return low;
  }

  /// Returns how many of the largest second moments go until the mean of the rest is small.
  Count dropped_second_moments() const {
    std::vector<double> values;
    std::vector<double> lows;
    std::vector<double> highs;
    for (const SelectableToken& token : tokens_) {
      values.push_back(token.second_moment.value);
      lows.push_back(token.second_moment.low);
      highs.push_back(token.second_moment.high);
    }
    for (std::vector<double>* ends : {&values, &lows, &highs})
      std::sort(ends->begin(), ends->end());
    const Enclosure threshold = constant(*options_.m2_threshold);
    Count dropped = exactly(count() - 1);
    EnclosureSum rest;
    for (std::int64_t k = 0; k < count(); ++k) {
      Enclosure statistic = values[k];
      statistic.low = lows[k];
      statistic.high = highs[k];
      rest.add(statistic);
      const Enclosure mean = rest.result() * reciprocal(k + 1);
      if (mean.low < threshold.high) dropped.least = count() - 1 - k;
      if (mean.high < threshold.low) dropped.largest = count() - 1 - k;
      if (mean.value < threshold.value) dropped.value = count() - 1 - k;
    }
    return dropped;
  }

  std::vector<Enclosure> of_large_second_moment() {
    const auto number = [&](std::size_t k) -> const Enclosure& { return tokens_[k].second_moment; };
    std::vector<Enclosure> large = first_ones(
        dropped_second_moments(),
        [&](std::size_t a, std::size_t b) {
          return number(a).value > number(b).value || (number(a).value == number(b).value && a < b);
        },
        [&](std::size_t a, std::size_t b) {
          // Equal ones are equal anywhere if they are of inputs alone, or no rounding is in them.
          const bool are_same =
              !options_.approximates_proximal() || (number(a).is_exact() && number(b).is_exact());
          if (are_same && number(a).value == number(b).value) return a < b ? 1 : -1;
          return larger(number(a), number(b));
        });
    for (const Enclosure& is_large : large) {
      count_branch("second_moment_dropped", is_large.value > 0);
      count_branch("second_moment_kept", is_large.value == 0);
    }
    return large;
  }

  const ClippedPgOptions& options_;
  const Side side_;
  std::map<std::string, std::int64_t>& branches_;
  std::vector<SelectableToken> tokens_;
  std::vector<std::uint64_t> lots_;
  bool straddles_ = false;
};

}  // namespace

Enclosure opposite(const Enclosure& a) {
  Enclosure result = 1 - a.value;
  result.low = 1 - a.high;
  result.high = 1 - a.low;
  return result;
}

TrueSelection true_selection(const ClippedPgOptions& options,
                             const ByToken<SelectableToken>& tokens, Side side,
                             std::map<std::string, std::int64_t>& branches) {
  SelectionTruth truth(options, tokens, side, branches);
  const std::vector<Enclosure> selected = truth.selected();
  TrueSelection selection;
  std::size_t next = 0;
  for (const std::vector<SelectableToken>& of_sequence : tokens) {
    std::vector<Enclosure>& own = selection.tokens.emplace_back();
    for (std::size_t k = 0; k < of_sequence.size(); ++k) {
      own.push_back(truth.on_side(selected[next++]));
    }
  }
  selection.straddles = truth.straddles();
  return selection;
}

}  // namespace lossgrid
