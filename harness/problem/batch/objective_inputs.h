// SPDX-License-Identifier: Apache-2.0
// Inputs of objectives about tokens and sequences: those that an objective draws for a case
// (input_draw.h), or those of a file, and the denominators that depend on them.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "harness/problem/batch/input_draw.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// Inputs and statistics that one objective reads.
struct ObjectiveNeeds {
  std::array<bool, kTokenInputs> inputs{};  // by TokenInput
  bool rewards = false;
  bool sequence_counts = false;   // denominators.trained_sequences and all_sequences
  std::int64_t group_size = 0;    // neighbours whose valid tokens are counted together; 0: none are
  bool packs_are_groups = false;  // those of a pack are: the loss depends on the partition
  std::int64_t sequences_per_unit = 1;  // neighbouring sequences that must stay in one pack
  bool input_sum = false;               // PackedBatch::input_sum
  bool generation_may_lack = false;     // some generation_logprobs are not finite
  bool drops_lacking = false;           // such tokens are masked, and no count has them
  bool whole_batch = false;             // true: all sequences must
  bool selects = false;                 // Objective::select
  bool draws = false;                   // it selects by lot
  bool row_statistics = false;          // entropy and vocab extrema beside log-probabilities
  bool predictions = false;             // sum_p2, top1 and mean_logit beside them
  bool token_weights = false;           // Objective::token_weights
  RowTerms terms{};                     // numbers of a row that the loss depends on
  Head head = Head::lm;                 // that it takes the numbers of rows from
  bool probability_weights = false;     // the loss of a token is weighted by its probability

  bool needs(TokenInput input) const { return inputs[static_cast<int>(input)]; }
  /// Returns true for the numbers of a row that are read beside its log-probability.
  bool reads(RowTerm term) const {
    return terms.has(term) || (is_statistic(term) && row_statistics) ||
           (is_prediction(term) && predictions);
  }
  bool has_groups() const { return group_size > 0 || packs_are_groups; }
  /// Returns the neighbours that must stay in one pack of a batch of this many sequences.
  std::int64_t unit_of(std::int64_t sequences) const {
    return whole_batch ? std::max(sequences, sequences_per_unit) : sequences_per_unit;
  }
};

/// Returns the divergence that rows of the problem have: on the support of a teacher only where
/// that sends its top k.
Divergence divergence_of(const ObjectiveNeeds& needs, const CaseSpec& spec);

/// Fills problem.inputs and problem.rewards of a case with the needed numbers of `draw`, as
/// float32, and counts the denominators that the needs name.
/// `draw`: null only where neither inputs nor rewards are needed. `numbers` [T] by row: log p of
/// the token that row t predicts, or the value of a head without a vocabulary. Slots that are not
/// trained on are poisoned with spec.poison. Throws bad_input where inputs are to be drawn around a
/// log-probability that is not finite.
void draw_objective_inputs(Problem& problem, const ObjectiveNeeds& needs, const InputDraw* draw,
                           std::span<const double> numbers);

/// Checks the inputs of a problem read from a file: throws bad_input when an input that is needed
/// is missing, or is NaN or infinite where a token is trained on, unless the objective takes that
/// (for rewards: where a sequence counts), or a version is no whole number of at most 2^24 in size
/// there. Drops inputs that are not needed and counts the
/// denominators that the needs name.
void require_objective_inputs(Problem& problem, const ObjectiveNeeds& needs);

}  // namespace lossgrid
