// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/slice_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/verify/diagnosis/weight_parts.h"

namespace lossgrid {
namespace {

/// Returns the ranks, dp rank by dp rank, whose rows make the part of `rank` if the sum over `axes`
/// is missing.
std::vector<std::size_t> ranks_beside(const ReducedAxes& axes, std::size_t rank, int dp, int cp) {
  const auto cp_size = static_cast<std::size_t>(cp);
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < static_cast<std::size_t>(dp) * cp_size; ++r) {
    const bool same_dp = !axes.dp || r / cp_size == rank / cp_size;
    const bool same_cp = !axes.cp || r % cp_size == rank % cp_size;
    if (same_dp && same_cp) out.push_back(r);
  }
  return out;
}

bool same_factor(double a, double b) {
  return std::abs(a - b) <= kSameWeightFactor * std::abs(b);
}

/// Factors of the ranks whose rows have a part in their own slice.
struct SliceFactors {
  std::vector<double> factors;
  std::vector<double> token_shares;  // shares of the rows of the part; empty: unknown
};

/// Returns the factors for which every slice is a part; nullopt if any slice is no part.
std::optional<SliceFactors> factors_of_slices(const SliceParts& parts, std::size_t axes,
                                              std::span<const double> token_shares) {
  SliceFactors out;
  const double largest = *std::max_element(parts.part_squared.begin(), parts.part_squared.end());
  const double most_got = *std::max_element(parts.got_squared.begin(), parts.got_squared.end());
  for (std::size_t r = 0; r < parts.ranks(); ++r) {
    const double part_squared = parts.part_squared[axes * parts.ranks() + r];
    const double got_part = parts.got_part[axes * parts.ranks() + r];
    const double got_squared = parts.got_squared[r];
    if (part_squared <= kWeightRestSquared * largest) {
      if (got_squared > kWeightRestSquared * most_got) return std::nullopt;
      continue;
    }
    const double factor = got_part / part_squared;
    if (!(got_squared > 0) ||
        !(got_squared - factor * got_part <= kWeightRestSquared * got_squared)) {
      return std::nullopt;
    }
    out.factors.push_back(factor);
    if (token_shares.size() != parts.ranks()) continue;
    double share = 0;
    for (const std::size_t q : ranks_beside(kReducedAxes[axes], r, parts.dp, parts.cp)) {
      share += token_shares[q];
    }
    out.token_shares.push_back(share);
  }
  return out;
}

}  // namespace

void SliceParts::add(const SliceParts& other) {
  for (std::size_t k = 0; k < part_squared.size(); ++k) {
    part_squared[k] += other.part_squared[k];
    got_part[k] += other.got_part[k];
  }
  for (std::size_t r = 0; r < ranks(); ++r) got_squared[r] += other.got_squared[r];
}

std::optional<SliceParts> slice_parts(const Problem& problem, const Truth& truth,
                                      const VocabShard& shard, std::span<const double> got,
                                      std::span<const int> holder, std::span<const int> rank_of_row,
                                      int dp, int cp) {
  const std::size_t ranks = static_cast<std::size_t>(dp) * static_cast<std::size_t>(cp);
  if (!has_weight_parts(problem, shard, got.size(), static_cast<std::int64_t>(ranks))) {
    return std::nullopt;
  }
  const std::vector<std::vector<double>> parts =
      true_weight_parts(problem, truth, shard, rank_of_row, static_cast<int>(ranks));
  SliceParts out{dp, cp, std::vector<double>(kReducedAxes.size() * ranks, 0.0),
                 std::vector<double>(kReducedAxes.size() * ranks, 0.0),
                 std::vector<double>(ranks, 0.0)};
  for (std::size_t axes = 0; axes < kReducedAxes.size(); ++axes) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::vector<std::size_t> beside = ranks_beside(kReducedAxes[axes], r, dp, cp);
      for (std::size_t k = 0; k < got.size(); ++k) {
        if (holder[k] != static_cast<int>(r)) continue;
        double part = 0;
        for (const std::size_t q : beside) part += parts[q][k];
        out.part_squared[axes * ranks + r] += part * part;
        out.got_part[axes * ranks + r] += part * got[k];
        if (axes == 0) out.got_squared[r] += got[k] * got[k];
      }
    }
  }
  return out;
}

std::optional<std::string> slice_sentence(const SliceParts& parts,
                                          std::span<const double> token_shares) {
  for (std::size_t k = 0; k < kReducedAxes.size(); ++k) {
    const ReducedAxes& axes = kReducedAxes[k];
    if ((axes.dp && parts.dp == 1) || (axes.cp && parts.cp == 1)) continue;
    const auto found = factors_of_slices(parts, k, token_shares);
    if (!found || found->factors.size() < 2) continue;
    const double first = found->factors.front();
    const auto& factors = found->factors;
    if (std::all_of(factors.begin(), factors.end(),
                    [&](double factor) { return same_factor(factor, first); })) {
      return fmt::format(
          "each rank's slice of grad_weight is {}that of the rows of its own {} alone: the slices "
          "were taken before the gradient was reduced over {}",
          same_factor(first, 1) ? "" : fmt::format("{:.4g} x ", first), axes.ranks, axes.text);
    }
    bool own_means = found->token_shares.size() == factors.size();
    for (std::size_t r = 0; own_means && r < factors.size(); ++r) {
      own_means = same_factor(factors[r] * found->token_shares[r], 1);
    }
    if (own_means) {
      return fmt::format(
          "each rank's slice of grad_weight is a mean over the valid tokens of its own {} alone: "
          "the slices were taken before the gradient was reduced over {}",
          axes.ranks, axes.text);
    }
  }
  return std::nullopt;
}

}  // namespace lossgrid
