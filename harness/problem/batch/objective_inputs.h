// SPDX-License-Identifier: Apache-2.0
// Inputs of objectives about tokens and sequences, drawn from a case's seed around its true
// log-probabilities so that every branch of an objective is reached: ratios on both sides of the
// clip range, KL in its live range, importance weights inside and outside of their bounds.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// Distances between two log-probabilities at which the formula of an objective switches; 0 alone
/// if there are none.
struct Edges {
  std::array<double, 8> at{};
  int count = 0;

  void add(double distance) { at[static_cast<std::size_t>(count++)] = distance; }
};

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
  std::int64_t current_version = 0;     // of the policy that is trained, for versions
  bool whole_batch = false;             // true: all sequences must
  bool selects = false;                 // Objective::select
  bool draws = false;                   // it selects by lot
  bool row_statistics = false;          // entropy and vocab extrema beside log-probabilities
  bool predictions = false;             // sum_p2, top1 and mean_logit beside them
  bool token_weights = false;           // Objective::token_weights
  RowTerms terms{};                     // numbers of a row that the loss depends on
  Head head = Head::lm;                 // that it takes the numbers of rows from
  bool probability_weights = false;     // the loss of a token is weighted by its probability
  // Distances at which the formula switches:
  Edges log_ratios{};            // current - previous
  Edges log_weights{};           // previous - generation
  Edges reference_offsets{};     // reference - current
  Edges teacher_offsets{};       // teacher - current
  double value_clip = HUGE_VAL;  // half of the range around old_values
  double value_bend = HUGE_VAL;  // of value - return
  bool edges_by_unit = false;    // for all tokens of a unit together, not token by token

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

/// Fills problem.inputs and problem.rewards of a case and counts the denominators that the needs
/// name.
/// `numbers` [T] by row: log p of the token that row t predicts, or the value of a head without a
/// vocabulary, around which value_inputs.h draws. With x the log-probability of a token and
/// spec.drift:
///   near: x - prev from a mixture with mass inside and on both sides of the usual clip ranges and
///   some beyond a dual clip, plus an offset by sequence; prev - generation mostly N(0, 0.1), a
///   fifth 0.3 to 1 away; reference - x and teacher - x mostly N(0, 0.5), a tenth 1.5 to 2.5 away;
///   far: the same, and every tenth token beyond the KL clamps (20 and 10) or with an importance
///   weight that is not finite in float32, and every third teacher 25 to 40 or 2.6 to 5 away;
///   equal: prev = generation = reference = teacher = x as float32;
///   far_prev: as near, and prev of every fourth token 25 to 40 below x, or half of them above it
///   where x is below -40, generation around it: ratios of e^25 to e^40, and of e^-40 to e^-25;
///   edge: distances at one of the objective's edges, as near as float32 comes, one float32 further
///   or 2^-10 further, to either side: close enough that an edge in bf16 is another one, and
///   further than any rounding.
/// Where the objective takes generation_logprobs that are not finite, every eighth token has one:
/// -inf, inf or NaN. Versions are those of policy_versions.h; then edges of log ratios are those to
/// the policy between the current and the generating one.
/// Advantages are N(0, 1), every tenth 0; rewards N(0, 1), for edge every third 0. No drawn
/// log-probability is positive.
/// Slots that are not trained on are poisoned with spec.poison. Throws bad_input where inputs
/// are to be drawn around a log-probability that is not finite.
void draw_objective_inputs(Problem& problem, const ObjectiveNeeds& needs,
                           std::span<const double> numbers);

/// Checks the inputs of a problem read from a file: throws bad_input when an input that is needed
/// is missing, or is NaN or infinite where a token is trained on, unless the objective takes that
/// (for rewards: where a sequence counts), or a version is no whole number of at most 2^24 in size
/// there. Drops inputs that are not needed and counts the
/// denominators that the needs name.
void require_objective_inputs(Problem& problem, const ObjectiveNeeds& needs);

}  // namespace lossgrid
