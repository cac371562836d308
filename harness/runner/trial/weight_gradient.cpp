// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/trial/weight_gradient.h"

#include <algorithm>

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

std::optional<WeightFindings> check_weight_sum(const TrialSetup& setup, const ProcessGrid& groups,
                                               const WeightGradient& gradient) {
  const Problem& problem = *setup.problem;
  const WeightPlaces places = weight_places(problem.spec, setup.grid, groups.tp_rank());
  const std::span<const std::int64_t> ids = ids_of(*setup.truth->linear, places.shard);
  const auto size = static_cast<std::size_t>(places.factors());
  const bool judges = groups.cp_rank() == 0 && groups.dp_rank() == 0;
  std::vector<double> sums;
  std::vector<double> block;
  for (std::size_t begin = 0; begin < ids.size() * size; begin += kBlock) {
    const std::size_t end = std::min(ids.size() * size, begin + kBlock);
    block.clear();
    for (std::size_t k = begin; k < end; ++k) {
      const std::int64_t column = ids[k / size] - places.shard.begin;
      const std::int64_t h = static_cast<std::int64_t>(k % size);
      block.push_back(gradient.at(places.at(column, h)));
    }
    groups.cp->all_reduce(std::span<double>(block), ReduceOp::sum);
    groups.dp->all_reduce(std::span<double>(block), ReduceOp::sum);
    if (judges) sums.insert(sums.end(), block.begin(), block.end());
  }
  if (!judges) return std::nullopt;

  const double ranks = static_cast<double>(setup.grid.cp) * setup.grid.dp;
  std::vector<double> before;
  std::vector<float> row(size);  // of a bias nothing stands before
  for (const std::int64_t id : ids) {
    embedding_gradient(problem, id, std::span(row).first(static_cast<std::size_t>(places.size)));
    for (const float value : row) before.push_back(ranks * static_cast<double>(value));
  }
  const DeclaredRoundings declared = declared_roundings(setup);
  const int rank = groups.world->rank();
  WeightFindings findings{
      check_grad_weight(problem, *setup.truth, places.shard, sums, before, declared, rank), {}};
  if (places.has_bias) {
    findings.bias =
        check_grad_bias(problem, *setup.truth, places.shard, sums, before, declared, rank);
  }
  return findings;
}

}  // namespace lossgrid
