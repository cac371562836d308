// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/replica_sentences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

/// Largest squared distance, relative to the squared truth, of vectors that are equal but for
/// roundings: 0.3 % squared, which includes roundings to bfloat16.
constexpr double kSameReplicaSquared = 1e-5;
constexpr double kFits = 1e-3;

bool fits(double a, double b) {
  return std::abs(a - b) <= kFits * std::abs(b);
}

/// Linear combinations of the ranks' numbers, by their inner products.
class RankVectors {
 public:
  explicit RankVectors(const ReplicaProducts& products)
      : dp_(static_cast<std::size_t>(products.dp)),
        cp_(static_cast<std::size_t>(products.cp)),
        all_(dp_ * cp_ + 1),
        products_(products.of) {}

  using Combination = std::vector<double>;  // factors of the ranks' numbers and of the truth

  std::size_t ranks() const { return all_ - 1; }
  std::size_t at(std::size_t dp_rank, std::size_t cp_rank) const { return dp_rank * cp_ + cp_rank; }
  double truth_squared() const { return product(ranks(), ranks()); }
  bool is_usable() const {
    return products_.size() == all_ * all_ && truth_squared() > 0 &&
           std::all_of(products_.begin(), products_.end(),
                       [](double x) { return std::isfinite(x); });
  }

  double squared(const Combination& sum) const {
    double out = 0;
    for (std::size_t a = 0; a < all_; ++a) {
      for (std::size_t b = 0; b < all_; ++b) out += sum[a] * sum[b] * product(a, b);
    }
    return std::max(out, 0.0);
  }
  bool is_zero(std::size_t rank) const {
    return product(rank, rank) <= kSameReplicaSquared * truth_squared();
  }
  bool same(std::size_t a, std::size_t b) const {
    Combination difference(all_, 0.0);
    difference[a] += 1;
    difference[b] -= 1;
    return squared(difference) <= kSameReplicaSquared * std::max(product(a, a), truth_squared());
  }
  bool is_orthogonal(std::size_t a, std::size_t b) const {
    return std::abs(product(a, b)) <= kSameReplicaSquared * truth_squared();
  }
  /// True if all elements of a rank are either 0 or those of the truth.
  bool is_part_of_truth(std::size_t rank) const {
    const double size = product(rank, rank);
    return std::abs(product(rank, ranks()) - size) <= kSameReplicaSquared * truth_squared();
  }
  /// Returns c if the weighted sum of the ranks' numbers is c times the truth and not 0.
  std::optional<double> multiple(const std::vector<double>& weights) const {
    Combination sum(weights);
    sum.push_back(0);
    double factor = 0;
    for (std::size_t r = 0; r < ranks(); ++r) factor += sum[r] * product(r, ranks());
    factor /= truth_squared();
    sum.back() = -factor;
    const double size = std::max(factor * factor, 1.0) * truth_squared();
    if (std::abs(factor) < kFits || squared(sum) > kSameReplicaSquared * size) return std::nullopt;
    return factor;
  }
  std::optional<double> rank_multiple(std::size_t rank) const {
    std::vector<double> weights(ranks(), 0.0);
    weights[rank] = 1;
    return multiple(weights);
  }

 private:
  double product(std::size_t a, std::size_t b) const { return products_[a * all_ + b]; }

  std::size_t dp_;
  std::size_t cp_;
  std::size_t all_;
  const std::vector<double>& products_;
};

class ReplicaDiagnosis {
 public:
  explicit ReplicaDiagnosis(const ReplicaFacts& facts)
      : facts_(facts),
        vectors_(facts.products),
        dp_(static_cast<std::size_t>(facts.products.dp)),
        cp_(static_cast<std::size_t>(facts.products.cp)) {}

  std::optional<std::string> sentence() const {
    if (!vectors_.is_usable() || vectors_.ranks() < 2) return std::nullopt;
    if (facts_.holders > 0) return facts_.differ ? slice_not_reduced() : std::nullopt;
    if (!facts_.differ) return reduced_twice();
    for (const auto& find : {&ReplicaDiagnosis::roundings, &ReplicaDiagnosis::one_rank,
                             &ReplicaDiagnosis::slices, &ReplicaDiagnosis::not_reduced,
                             &ReplicaDiagnosis::own_means, &ReplicaDiagnosis::right_on_one}) {
      if (const auto text = (this->*find)()) return text;
    }
    return std::nullopt;
  }

 private:
  bool is_loss() const { return facts_.name == "loss"; }
  std::string rank_name(std::size_t rank) const {
    return replica_name(facts_.products.dp, facts_.products.cp, rank);
  }
  std::string times(double factor) const {
    return fits(factor, 1) ? "the truth" : fmt::format("{:.3f} x the truth", factor);
  }
  std::array<double, 4> sizes() const {
    const auto dp = static_cast<double>(dp_);
    const auto cp = static_cast<double>(cp_);
    return {1, dp, cp, dp * cp};
  }
  /// A loss is a single number, for which an arbitrary factor is no evidence.
  bool is_evidence(double factor) const {
    if (!is_loss()) return true;
    const std::array<double, 4> known = sizes();
    return std::any_of(known.begin(), known.end(), [&](double x) { return fits(factor, x); });
  }

  std::optional<std::string> roundings() const {
    for (std::size_t r = 1; r < vectors_.ranks(); ++r) {
      if (!vectors_.same(r, 0)) return std::nullopt;
    }
    return fmt::format(
        "{} differs between ranks by roundings alone: each adds up in an order of its own, where "
        "an all-reduce leaves the same bits on all",
        facts_.name);
  }

  std::optional<std::string> one_rank() const {
    std::vector<std::size_t> holders;
    for (std::size_t r = 0; r < vectors_.ranks(); ++r) {
      if (!vectors_.is_zero(r)) holders.push_back(r);
    }
    if (holders.size() != 1) return std::nullopt;
    const auto factor = vectors_.rank_multiple(holders.front());
    if (!factor || !is_evidence(*factor)) return std::nullopt;
    return fmt::format("{} is {} on {} only and 0 elsewhere: reduced to one rank, not to all?",
                       facts_.name, times(*factor), rank_name(holders.front()));
  }

  /// Names ranks that hold the same slice, each with the part of its own rows.
  std::optional<std::string> slice_not_reduced() const {
    const auto factor = vectors_.multiple(std::vector<double>(vectors_.ranks(), 1.0));
    if (!factor) return std::nullopt;
    return fmt::format(
        "each slice of {} is held by {} ranks with other numbers, and these add up to {}: not "
        "reduced over these ranks, each holds that of its own rows",
        facts_.name, facts_.holders, times(*factor));
  }

  /// Names ranks that each hold the truth of different elements, and 0 elsewhere.
  std::optional<std::string> slices() const {
    if (is_loss()) return std::nullopt;
    for (std::size_t a = 0; a < vectors_.ranks(); ++a) {
      for (std::size_t b = 0; b < vectors_.ranks(); ++b) {
        if (a != b && !vectors_.is_orthogonal(a, b)) return std::nullopt;
      }
      if (!vectors_.is_part_of_truth(a)) return std::nullopt;
    }
    if (!vectors_.multiple(std::vector<double>(vectors_.ranks(), 1.0))) return std::nullopt;
    return fmt::format(
        "each rank holds other elements of {}, as the truth has them, and 0 elsewhere: slices of a "
        "reduce-scatter, which gradients=\"zero\" would declare, or not reduced over rows of "
        "disjoint ids?",
        facts_.name);
  }

  /// True if ranks with equal coordinates on `axes` hold the same numbers.
  bool depends_on_nothing_else(const ReducedAxes& axes) const {
    for (std::size_t d = 0; d < dp_; ++d) {
      for (std::size_t c = 0; c < cp_; ++c) {
        const std::size_t like = vectors_.at(axes.dp ? d : 0, axes.cp ? c : 0);
        if (!vectors_.same(vectors_.at(d, c), like)) return false;
      }
    }
    return true;
  }

  /// Returns `weight(rank)` for one rank of each group that holds the same numbers, 0 for other
  /// ranks.
  std::vector<double> weights(const ReducedAxes& axes,
                              const std::function<double(std::size_t)>& weight) const {
    std::vector<double> out(vectors_.ranks(), 0.0);
    for (std::size_t d = 0; d < (axes.dp ? dp_ : 1); ++d) {
      for (std::size_t c = 0; c < (axes.cp ? cp_ : 1); ++c) {
        out[vectors_.at(d, c)] = weight(vectors_.at(d, c));
      }
    }
    return out;
  }

  bool applies(const ReducedAxes& axes) const {
    return (!axes.dp || dp_ > 1) && (!axes.cp || cp_ > 1) && depends_on_nothing_else(axes);
  }

  std::optional<std::string> not_reduced() const {
    for (const ReducedAxes& axes : kReducedAxes) {
      if (!applies(axes)) continue;
      const auto factor = vectors_.multiple(weights(axes, [](std::size_t) { return 1.0; }));
      if (!factor || !is_evidence(*factor)) continue;
      const std::string more = fits(*factor, 1) ? "" : fmt::format(" times {:.4g}", *factor);
      return fmt::format(
          "{} is another one on each {}, and these add up to {}: not reduced over {}, each rank "
          "{} that of its own rows{}",
          facts_.name, axes.ranks, times(*factor), axes.text, is_loss() ? "reports" : "holds",
          more);
    }
    return std::nullopt;
  }

  std::optional<std::string> own_means() const {
    if (facts_.token_shares.size() != vectors_.ranks()) return std::nullopt;
    for (const ReducedAxes& axes : kReducedAxes) {
      if (!applies(axes)) continue;
      const auto share = [&](std::size_t rank) {
        double sum = 0;
        for (std::size_t d = axes.dp ? rank / cp_ : 0; d < (axes.dp ? rank / cp_ + 1 : dp_); ++d) {
          for (std::size_t c = axes.cp ? rank % cp_ : 0; c < (axes.cp ? rank % cp_ + 1 : cp_);
               ++c) {
            sum += facts_.token_shares[vectors_.at(d, c)];
          }
        }
        return sum;
      };
      const auto factor = vectors_.multiple(weights(axes, share));
      if (!factor || !fits(*factor, 1)) continue;
      return fmt::format(
          "{} is another one on each {}, a mean over the valid tokens of its own rows: not reduced "
          "over {}, with a denominator of its own",
          facts_.name, axes.ranks, axes.text);
    }
    return std::nullopt;
  }

  std::optional<std::string> right_on_one() const {
    std::vector<std::size_t> right;
    for (std::size_t r = 0; r < vectors_.ranks(); ++r) {
      const auto factor = vectors_.rank_multiple(r);
      if (factor && fits(*factor, 1)) right.push_back(r);
    }
    if (right.size() != 1) return std::nullopt;
    return fmt::format("{} is the truth on {} only: reduced to one rank, not to all?", facts_.name,
                       rank_name(right.front()));
  }

  std::optional<std::string> reduced_twice() const {
    if (!facts_.failed || is_loss()) return std::nullopt;
    const auto factor = vectors_.rank_multiple(0);
    if (!factor || fits(*factor, 1)) return std::nullopt;
    const std::array<double, 4> known = sizes();
    std::vector<std::string> axes_that_fit;
    for (const ReducedAxes& axes : kReducedAxes) {
      const std::size_t at = axes.dp && axes.cp ? 3 : axes.dp ? 1 : 2;
      if (applies(axes) && fits(*factor, known[at])) axes_that_fit.emplace_back(axes.text);
    }
    if (axes_that_fit.empty()) return std::nullopt;
    return fmt::format(
        "every rank holds the same {}, {:.3f} x the truth: reduced over {} twice, or added up "
        "where its mean is due?",
        facts_.name, *factor, join(axes_that_fit, " or "));
  }

  const ReplicaFacts& facts_;
  RankVectors vectors_;
  std::size_t dp_;
  std::size_t cp_;
};

}  // namespace

bool add_replicas(const ReplicaFacts& facts, std::vector<std::string>& out) {
  const std::optional<std::string> text = ReplicaDiagnosis(facts).sentence();
  if (text) out.push_back(*text);
  return text.has_value();
}

}  // namespace lossgrid
