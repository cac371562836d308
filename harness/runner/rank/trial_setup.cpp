// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/trial_setup.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/device/kernel/block_sums.h"

namespace lossgrid {

void for_each_part(const TrialSetup& setup, const std::function<void(int, const LossProblem&)>& f) {
  for (const TrialMicrobatch& microbatch : setup.microbatches) {
    const Grid& grid = microbatch.grid;
    for (int d = 0; d < grid.dp; ++d) {
      const Problem& problem = *microbatch.parts[static_cast<std::size_t>(d)].problem;
      const PackedBatch batch = pack(problem, grid);
      f(grid.rank_of(0, 0, d, grid.pp - 1),
        make_loss_problem(problem, batch, grid, *setup.objective, setup.backend));
    }
  }
}

int serial_adds(const TrialSetup& setup) {
  const ImplementationTraits description = setup.implementation->describe();
  int of_rows = description.serial_adds;
  if (description.plays_back) {
    // All that is known of the program: its sums over a row have at least as many lanes as kernels
    // have threads.
    constexpr std::int64_t kLanes = 256;
    const auto of_lane = static_cast<int>((setup.problem->spec.vocab + kLanes - 1) / kLanes);
    of_rows = std::max(of_rows, of_lane);
  }
  if (traits_of(setup.backend).launches_kernels) {
    const CaseSpec& spec = setup.problem->spec;
    const DType logits = spec.hidden > 0 ? DType::f32 : spec.dtype;
    of_rows = std::max(of_rows, block_serial_adds(vocab_shard(spec.vocab, setup.grid.tp, 0).width,
                                                  static_cast<std::int64_t>(size_of(logits))));
  }
  return of_rows + setup.grid.tp - 1;  // the longest chain of any order of adding up ranks
}

bool adds_in_rank_order(const TrialSetup& setup) {
  return !setup.over_nccl || std::max(setup.grid.tp, setup.grid.cp_sizes().back()) <= 2;
}

DeclaredRoundings declared_roundings(const TrialSetup& setup) {
  if (setup.declared) return *setup.declared;
  DeclaredRoundings declared;
  // By rank, of those with the first columns.
  std::vector<std::int64_t> adds(static_cast<std::size_t>(setup.grid.line()), 0);
  std::size_t packs = 0;
  for_each_part(setup, [&](int rank, const LossProblem& loss_problem) {
    ++packs;
    declared.grad_logits = setup.implementation->grad_logits_dtype(loss_problem);
    // Without chunks all rows are added at once.
    const std::int64_t chunks =
        std::max<std::int64_t>(1, setup.implementation->cost(loss_problem).chunks);
    const auto first = static_cast<std::size_t>(rank % setup.grid.stage_ranks() / setup.grid.tp);
    for (int k = 0; k < loss_problem.grid.cp; ++k)
      adds[first + static_cast<std::size_t>(k)] += chunks;
  });
  for (const std::int64_t of_rank : adds)
    declared.weight_adds = std::max(declared.weight_adds, of_rank);
  const ImplementationTraits description = setup.implementation->describe();
  const std::int64_t parts = std::accumulate(adds.begin(), adds.end(), std::int64_t{0});
  if (description.rounds_loss) {
    // Roundings of the mean, and of the sum so far where a part is added.
    declared.loss = unit_roundoff(setup.problem->spec.dtype) * (1 + std::sqrt(parts));
  }
  if (description.rounds_grad_weight) {
    declared.weight_part = setup.problem->spec.dtype;
    declared.weight_parts = parts;
    if (packs == 1 && setup.grid.line() == 1) declared.weight_sum = declared.weight_part;
  }
  return declared;
}

}  // namespace lossgrid
