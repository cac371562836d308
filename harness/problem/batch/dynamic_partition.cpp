// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/dynamic_partition.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/problem/values/random_streams.h"

namespace lossgrid {
namespace {

std::int64_t parts_of(std::int64_t tokens, std::int64_t size) {
  return (tokens + size - 1) / size;
}

std::int64_t longest_of(const std::vector<std::int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

/// Deals the sequences of a microbatch to packs at random.
MicrobatchPacks deal(const Problem& problem, const Grid& grid,
                     const std::vector<std::int64_t>& sequences, std::int64_t sequences_per_unit) {
  const RandomStream random = random_stream(problem.spec.seed, Stream::dynamic_packs);
  std::vector<std::int64_t> lengths;
  for (const std::int64_t i : sequences) {
    lengths.push_back(problem.lengths[static_cast<std::size_t>(i)]);
  }
  MicrobatchPacks out{.cp = dynamic_cp(grid, longest_of(lengths), longest_of(problem.lengths)),
                      .packs = {}};
  out.packs.resize(static_cast<std::size_t>(grid.line() / out.cp));
  for (const std::int64_t i : sequences) {
    const auto unit = static_cast<std::uint64_t>(i / sequences_per_unit);
    const auto packs = static_cast<std::uint32_t>(out.packs.size());
    out.packs[random.below(packs, unit)].sequences.push_back(i);
  }
  return out;
}

/// Fills the empty packs with copies of the first one that is not.
void fill_with_dummies(MicrobatchPacks& microbatch) {
  const auto filled =
      std::find_if(microbatch.packs.begin(), microbatch.packs.end(),
                   [](const MicrobatchPlan& plan) { return !plan.sequences.empty(); });
  if (filled == microbatch.packs.end()) return;
  const std::vector<std::int64_t> copied = filled->sequences;
  for (MicrobatchPlan& plan : microbatch.packs) {
    if (!plan.sequences.empty()) continue;
    plan.sequences = copied;
    plan.dummy = true;
  }
}

}  // namespace

int dynamic_cp(const Grid& grid, std::int64_t longest, std::int64_t most) {
  const std::int64_t share = parts_of(most, grid.line());
  const std::vector<int> sizes = grid.cp_sizes();
  return *std::find_if(sizes.begin(), sizes.end(), [&](int size) {
    return parts_of(longest, size) <= share || size == sizes.back();
  });
}

std::vector<MicrobatchPacks> dynamic_partition(const Problem& problem, const Grid& grid,
                                               std::int64_t sequences_per_unit) {
  const std::int64_t microbatches = problem.spec.microbatches;
  if (microbatches < 1) throw_bad_input("microbatches = {} is not positive", microbatches);
  const RandomStream random = random_stream(problem.spec.seed, Stream::partition);
  std::vector<std::vector<std::int64_t>> sequences(static_cast<std::size_t>(microbatches));
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    const auto unit = static_cast<std::uint64_t>(i / sequences_per_unit);
    sequences[random.below(static_cast<std::uint32_t>(microbatches), unit)].push_back(i);
  }
  const auto filled = std::find_if(sequences.begin(), sequences.end(),
                                   [](const auto& own) { return !own.empty(); });
  std::vector<MicrobatchPacks> out;
  std::size_t slots = 0;
  for (const std::vector<std::int64_t>& own : sequences) {
    const bool is_dummy = own.empty() && filled != sequences.end();
    out.push_back(deal(problem, grid, is_dummy ? *filled : own, sequences_per_unit));
    fill_with_dummies(out.back());
    for (MicrobatchPlan& plan : out.back().packs) {
      plan.dummy = plan.dummy || is_dummy;
      plan.index = static_cast<int>(out.size()) - 1;
      slots = std::max(slots, plan.sequences.size());
    }
  }
  for (MicrobatchPacks& microbatch : out) {
    for (MicrobatchPlan& plan : microbatch.packs) plan.slots = static_cast<std::int64_t>(slots);
  }
  return out;
}

std::vector<MicrobatchPacks> plan_microbatches(const Problem& problem, const Grid& grid,
                                               std::int64_t sequences_per_unit) {
  if (grid.is_dynamic()) return dynamic_partition(problem, grid, sequences_per_unit);
  std::vector<MicrobatchPacks> out(static_cast<std::size_t>(problem.spec.microbatches));
  for (const std::vector<MicrobatchPlan>& of_rank :
       partition(problem, grid.dp, sequences_per_unit)) {
    for (std::size_t m = 0; m < of_rank.size(); ++m) {
      out[m].cp = grid.cp;
      out[m].packs.push_back(of_rank[m]);
    }
  }
  return out;
}

}  // namespace lossgrid
