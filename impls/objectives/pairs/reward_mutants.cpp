// SPDX-License-Identifier: Apache-2.0
// Mutants of reward models: scores of other rows, and losses of other pairs.
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/pairs/bradley_terry.h"

namespace lossgrid {
namespace {

bool is_about_scores(const LossProblem& problem) {
  return problem.objective_spec.kind == "bradley_terry";
}

/// Uses the last row of a sequence including its pads as its score.
ShiftedBatch rows_of_padded_ends(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  std::vector<std::int64_t> with_score;
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    if (rows.valid[row] != 0) with_score.push_back(rows.sequence[row]);
  }
  std::fill(rows.valid.begin(), rows.valid.end(), std::uint8_t{0});
  for (const std::int64_t i : with_score) {
    const auto end = static_cast<std::size_t>(batch.cu_seqlens_padded[i + 1] - 1);
    rows.valid[end] = 1;
    rows.targets[end] = 0;
  }
  return rows;
}

/// Sums scores as if every CP rank had the row of every score.
void sum_of_every_rank(Communicator& cp, SequenceTable<double> sums) {
  Steps().reduce_sequence_sums(cp, sums);
  for (std::int64_t i = 0; i < sums.sequences; ++i) {
    sums.at(i, ScoreTerms::kScore) *= cp.size();
  }
}

struct RejectedFirst : BradleyTerryFormulas {
  static std::int64_t chosen(std::int64_t pair) { return 2 * pair + 1; }
};

struct OverflowingLogarithm : BradleyTerryFormulas {
  static double loss(double gain) { return std::log(1 + std::exp(static_cast<float>(-gain))); }
};

struct AllPairsCounted : BradleyTerryFormulas {
  static double pairs(double /*complete*/, std::int64_t valid_sequences) {
    return static_cast<double>(valid_sequences) / 2;
  }
};

template <class Formulas>
std::unique_ptr<Objective> with_pair_formulas(const ObjectiveSpec& spec) {
  if (spec.kind != "bradley_terry") return nullptr;
  const OptionReader reader(spec.options, spec.kind);
  return std::make_unique<BradleyTerryObjective<Formulas>>(BradleyTerryOptions::read(reader));
}

const RegisteredMutant reward_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M198",
        .name = "pairs_without_score_counted",
        .what = "bradley_terry: divided by all pairs, those without two scores too",
        .strategy = "cp_local",
        .objective = with_pair_formulas<AllPairsCounted>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M234",
        .name = "score_of_padded_end",
        .what = "bradley_terry: the score of the last row of a sequence with its pads",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = rows_of_padded_ends; },
        .runs_on = is_about_scores,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M235",
        .name = "score_of_every_cp_rank",
        .what = "bradley_terry: every CP rank contributes the score, which one of them has",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.reduce_sequence_sums = sum_of_every_rank; },
        .runs_on = is_about_scores,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M237",
        .name = "pair_order_swapped",
        .what = "bradley_terry: the rejected sequence stands before the chosen one",
        .strategy = "cp_local",
        .objective = with_pair_formulas<RejectedFirst>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M238",
        .name = "overflowing_log_exp",
        .what = "bradley_terry: log(1 + e^x), which is infinite in float32 from x = 89 on",
        .strategy = "fused",
        .objective = with_pair_formulas<OverflowingLogarithm>,
        .seen_in = "OpenRLHF 0.11.2, LogExpLoss",
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
