// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/weight_gradient.h"

#include <algorithm>
#include <utility>

#include "harness/loss/declared_conventions.h"
#include "harness/runner/rank/row_homes.h"

namespace lossgrid {
namespace {

/// Numbers in one collective: the sums of a large shard are made block by block.
constexpr std::size_t kBlock = std::size_t{1} << 16;

/// Returns the ids of the shard among those that have a truth.
std::span<const std::int64_t> ids_of(const LinearTruth& truth, const VocabShard& shard) {
  const std::vector<std::int64_t>& ids = truth.weight.rows;
  const auto begin = std::lower_bound(ids.begin(), ids.end(), shard.begin);
  const auto end = std::lower_bound(begin, ids.end(), shard.end);
  return {begin, end};
}

}  // namespace

WeightPlaces weight_places(const CaseSpec& spec, const Grid& grid, int tp_rank) {
  return {vocab_shard(spec.vocab, grid.tp, tp_rank), spec.hidden, spec.weight_layout,
          spec.lm_head_bias};
}

WeightGradient split_gradient(const WeightPlaces& places, std::span<const float> gradient) {
  const auto elements = static_cast<std::size_t>(places.elements());
  return {gradient.first(elements), gradient.subspan(elements)};
}

std::vector<float> first_weight_gradient(const TrialSetup& setup, int tp_rank) {
  const Problem& problem = *setup.problem;
  if (problem.spec.hidden == 0) return {};
  const WeightPlaces places = weight_places(problem.spec, setup.grid, tp_rank);
  std::vector<float> gradient(static_cast<std::size_t>(places.all_elements()));
  fill_weight_gradient(problem, setup.grid, tp_rank, gradient.data());
  return gradient;
}

WeightGradientParts weight_gradient_parts(const TrialSetup& setup) {
  const auto* author = dynamic_cast<const DeclaresConventions*>(setup.implementation.get());
  return author == nullptr ? WeightGradientParts::summands : author->conventions().weight_gradient;
}

HeldPlaces held_places(const WeightPlaces& places, std::span<const ElementRange> ranges) {
  HeldPlaces held(static_cast<std::size_t>(places.all_elements()), 0);
  const std::int64_t ids = places.shard.valid();
  for (const ElementRange& range : ranges) {
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      held[static_cast<std::size_t>(places.at(k % ids, k / ids))] = 1;
    }
  }
  return held;
}

namespace {

/// Elements of the ids of a shard that have a truth, id by id, and the gradients that stood there
/// before the first pack.
class ShardElements {
 public:
  ShardElements(const TrialSetup& setup, int tp_rank)
      : problem_(*setup.problem),
        places_(weight_places(problem_.spec, setup.grid, tp_rank)),
        truth_(setup.truth->linear->weight),
        ids_(ids_of(*setup.truth->linear, places_.shard)),
        first_(truth_.find(ids_.empty() ? -1 : ids_.front())) {}

  std::size_t size() const { return ids_.size() * factors(); }
  std::size_t factors() const { return static_cast<std::size_t>(places_.factors()); }
  const WeightPlaces& places() const { return places_; }
  std::int64_t id(std::size_t k) const { return ids_[k / factors()]; }
  std::int64_t coordinate(std::size_t k) const { return static_cast<std::int64_t>(k % factors()); }
  std::int64_t place(std::size_t k) const {
    return places_.at(id(k) - places_.shard.begin, coordinate(k));
  }
  double want(std::size_t k) const {
    return truth_.want[static_cast<std::size_t>(first_) * factors() + k];
  }
  std::vector<double> before() const {
    std::vector<double> all;
    std::vector<float> row(factors());  // of a bias nothing stands before
    for (const std::int64_t id : ids_) {
      embedding_gradient(problem_, id,
                         std::span(row).first(static_cast<std::size_t>(places_.size)));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  const Problem& problem_;
  WeightPlaces places_;
  const LinearRows& truth_;
  std::span<const std::int64_t> ids_;
  std::int64_t first_;
};

/// Calls f(begin, end) for the blocks of `size` elements.
template <typename F>
void for_each_weight_block(std::size_t size, F&& f) {
  for (std::size_t begin = 0; begin < size; begin += kBlock) {
    f(begin, std::min(size, begin + kBlock));
  }
}

/// Returns the sums of summands, on the rank that judges.
std::vector<double> add_summands(const ShardElements& elements, const ProcessGrid& groups,
                                 const WeightGradient& gradient, bool judges) {
  std::vector<double> sums;
  std::vector<double> block;
  for_each_weight_block(elements.size(), [&](std::size_t begin, std::size_t end) {
    block.clear();
    for (std::size_t k = begin; k < end; ++k) block.push_back(gradient.at(elements.place(k)));
    groups.cp->all_reduce(std::span<double>(block), ReduceOp::sum);
    groups.dp->all_reduce(std::span<double>(block), ReduceOp::sum);
    if (judges) sums.insert(sums.end(), block.begin(), block.end());
  });
  return sums;
}

template <typename T>
std::vector<T> gather_over(Communicator& group, const std::vector<T>& own) {
  std::vector<T> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::span<const T>(own), std::span<T>(all));
  return all;
}

/// Returns `own` of all ranks over DP and CP, dp rank by dp rank.
template <typename T>
std::vector<T> gather_over(const ProcessGrid& groups, const std::vector<T>& own) {
  return gather_over(*groups.dp, gather_over(*groups.cp, own));
}

/// Returns the number of the rank over DP and CP that has each row [T], dp rank by dp rank.
std::vector<int> ranks_of_rows(const TrialSetup& setup) {
  std::vector<int> ranks;
  for (const RowHome& home : row_homes(setup)) ranks.push_back(home.dp * setup.grid.cp + home.cp);
  return ranks;
}

/// Elements of a shard that ranks hold, on the rank that judges.
struct HeldElements {
  std::vector<double> means;  // over the holders
  std::vector<int> holders;   // the first holder, dp rank by dp rank; -1: none
};

/// Returns the elements, and compares those of all holders with each other.
HeldElements compare_holders(const ShardElements& elements, const ProcessGrid& groups,
                             const WeightGradient& gradient, const HeldPlaces& held,
                             const std::vector<double>& before, ReplicaFindings& findings,
                             bool judges) {
  HeldElements out;
  for_each_weight_block(elements.size(), [&](std::size_t begin, std::size_t end) {
    std::vector<double> values;
    std::vector<std::uint8_t> holds;
    for (std::size_t k = begin; k < end; ++k) {
      values.push_back(gradient.at(elements.place(k)));
      holds.push_back(held[static_cast<std::size_t>(elements.place(k))]);
    }
    const std::vector<double> of_ranks = gather_over(groups, values);
    const std::vector<std::uint8_t> held_by = gather_over(groups, holds);
    if (!judges) return;
    std::vector<double> got(findings.ranks());
    std::vector<std::uint8_t> by(findings.ranks());
    for (std::size_t k = begin; k < end; ++k) {
      for (std::size_t r = 0; r < got.size(); ++r) {
        const std::size_t at = r * (end - begin) + k - begin;
        got[r] = of_ranks[at];
        by[r] = held_by[at];
      }
      out.means.push_back(findings.add(got, by, before[k], elements.want(k),
                                       {groups.world->rank(), -1, -1, elements.id(k)},
                                       elements.coordinate(k)));
      const auto first = std::find(by.begin(), by.end(), std::uint8_t{1});
      out.holders.push_back(first == by.end() ? -1 : static_cast<int>(first - by.begin()));
    }
  });
  return out;
}

}  // namespace

std::optional<WeightFindings> check_weight_sum(const TrialSetup& setup, const ProcessGrid& groups,
                                               const WeightGradient& gradient,
                                               const HeldPlaces& held) {
  const ShardElements elements(setup, groups.tp_rank());
  const bool judges = groups.cp_rank() == 0 && groups.dp_rank() == 0;
  std::vector<double> before = elements.before();
  std::optional<ReplicaFindings> replicas;
  std::vector<double> sums;
  std::vector<int> holders;
  if (held.empty()) {
    sums = add_summands(elements, groups, gradient, judges);
    for (double& value : before) value *= static_cast<double>(setup.grid.cp) * setup.grid.dp;
  } else {
    replicas.emplace(setup.grid.dp, setup.grid.cp);
    HeldElements all = compare_holders(elements, groups, gradient, held, before, *replicas, judges);
    sums = std::move(all.means);
    holders = std::move(all.holders);
  }
  if (!judges) return std::nullopt;
  const DeclaredRoundings declared = declared_roundings(setup);
  const VocabShard& shard = elements.places().shard;
  const int rank = groups.world->rank();
  WeightFindings findings{
      check_grad_weight(*setup.problem, *setup.truth, shard, sums, before, declared, rank),
      {},
      std::move(replicas),
      {},
      {}};
  if (elements.places().has_bias) {
    findings.bias =
        check_grad_bias(*setup.problem, *setup.truth, shard, sums, before, declared, rank);
  }
  const bool failed = !findings.weight.elements.passed() || !findings.weight.l2.passed();
  if (failed && findings.replicas) {
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] -= before[k];
    findings.sequences = sequence_parts(*setup.problem, *setup.truth, shard, sums);
    if (weight_gradient_parts(setup) == WeightGradientParts::slices) {
      findings.slices = slice_parts(*setup.problem, *setup.truth, shard, sums, holders,
                                    ranks_of_rows(setup), setup.grid.dp, setup.grid.cp);
    }
  }
  return findings;
}

std::vector<float> as_summand(const TrialSetup& setup, const ProcessGrid& groups,
                              const HeldPlaces& held, std::vector<float> gradient) {
  const std::vector<float> before = first_weight_gradient(setup, groups.tp_rank());
  const std::vector<std::uint8_t> by = gather_over(groups, held);
  const auto own = static_cast<std::size_t>(groups.dp_rank()) * setup.grid.cp + groups.cp_rank();
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    std::size_t first = 0;  // of the holders
    while (first * gradient.size() + k < by.size() && by[first * gradient.size() + k] == 0) ++first;
    if (first != own) gradient[k] = before[k];
  }
  return gradient;
}

}  // namespace lossgrid
