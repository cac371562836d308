// SPDX-License-Identifier: Apache-2.0
// Mutants of dynamic grids: counts, factors and groups that belong to another CP size than that of
// the microbatch.
#include <algorithm>
#include <memory>
#include <utility>

#include "harness/comm/forwarding_communicator.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

bool has_other_cp(const LossProblem& problem) {
  return problem.batch.microbatch.grid_cp > 0;
}

/// Counts the pack alone, as many times as the microbatch has packs.
void counts_of_own_group(PackedBatch& batch) {
  const std::vector<std::uint8_t> valid = shift_targets(batch).valid;
  const std::int64_t packs = std::int64_t{batch.microbatch.count} * batch.microbatch.dp;
  const std::int64_t own = std::count(valid.begin(), valid.end(), std::uint8_t{1});
  batch.denominators.valid_tokens = std::max<std::int64_t>(1, packs * own);
}

/// Multiplies by the ranks of the pack's group, divides by those of a group of the grid.
void factor_of_grid(const Objective& objective, const ObjectiveTokens& tokens,
                    const PackedBatch& batch, int cp, SequenceTable<const double> coefficients,
                    ObjectiveTotals<double> totals, const TokenGradients& gradients) {
  objective.token_terms(tokens, batch, coefficients, totals, gradients);
  const double factor = static_cast<double>(cp) / batch.microbatch.grid_cp;
  if (!totals.sums.empty()) totals.sums[0] *= factor;
  for (const std::span<float> column : gradients.columns()) {
    for (float& g : column) g = static_cast<float>(g * factor);
  }
}

/// The group of a pack, whose sums go over another one.
class SumsOfOtherGroup final : public ForwardingCommunicator {
 public:
  SumsOfOtherGroup(Communicator& own, std::unique_ptr<Communicator> other)
      : ForwardingCommunicator(own), other_(std::move(other)) {}

  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    other_->all_reduce(data, count, dtype, op);
  }

 protected:
  void before(Collective, std::size_t) override {}
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> inner) override {
    return inner;
  }

 private:
  std::unique_ptr<Communicator> other_;
};

/// Adds up over groups as large as those of the grid.
std::unique_ptr<Communicator> group_of_grid(const LossProblem& problem, RankContext context) {
  const Grid& grid = problem.grid;
  const int rank = context.stage.rank();
  const Grid other = grid.with_cp(problem.batch.microbatch.grid_cp);
  const int first = other.rank_of(other.tp_rank(rank), 0, other.dp_rank(rank));
  return std::make_unique<SumsOfOtherGroup>(
      context.cp, context.stage.split(first, other.cp_rank(rank), "other cp"));
}

const RegisteredMutant dynamic_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M290",
        .name = "dynamic_counts_of_group",
        .what = "dynamic CP: denominators count the tokens of the pack's own group",
        .strategy = "cp_local",
        .batch = counts_of_own_group,
        .runs_on = has_other_cp,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M291",
        .name = "dynamic_factor_of_grid",
        .what =
            "dynamic CP: a factor of cp is that of the microbatch, its inverse that of the grid",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = factor_of_grid; },
        .runs_on = has_other_cp,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M292",
        .name = "dynamic_group_of_grid",
        .what = "dynamic CP: sums go over the group of another microbatch",
        .strategy = "cp_local",
        .runs_on = has_other_cp,
        .cp_group = group_of_grid,
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
