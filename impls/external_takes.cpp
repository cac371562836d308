// SPDX-License-Identifier: Apache-2.0
#include "impls/external_takes.h"

namespace lossgrid {

std::optional<SkipReason> not_taken(const ExternalDeclaration& declaration,
                                    const LossProblem& problem) {
  const bool has_values = problem.objective.needs().head != Head::lm;
  if (has_values && !declaration.takes_values) {
    return SkipReason{"takes no head without a vocabulary: takes=\"values\""};
  }
  if (problem.sampling.has_mask && !declaration.takes_sampling_mask) {
    return SkipReason{"takes no sampling mask: takes=\"sampling_mask\""};
  }
  const bool is_transformed = !problem.row_transform().is_identity() ||
                              (problem.from_hidden() && problem.transform.scale != 1);
  if (is_transformed && !declaration.takes_transforms) {
    return SkipReason{"takes no logits that are scaled, capped or divided: takes=\"transforms\""};
  }
  if (problem.transform.by_sequence && !declaration.takes_sequence_temperatures) {
    return SkipReason{"takes no temperatures by sequence: takes=\"sequence_temperatures\""};
  }
  if (problem.head.has_bias && !declaration.takes_bias) {
    return SkipReason{"takes no bias of the LM head: takes=\"bias\""};
  }
  if (problem.grid.cp_layout != CpLayout::zigzag && !declaration.takes_layouts) {
    return SkipReason{"takes no CP layout but zigzag: takes=\"layouts\""};
  }
  if (has_values) return std::nullopt;
  RowTerms terms = problem.terms();
  const bool makes_loss = !declaration.returns_logprobs;
  if (makes_loss && problem.objective.needs().probability_weights && !declaration.takes_terms) {
    return SkipReason{"the objective weighs tokens by their probability: takes=\"terms\""};
  }
  if (makes_loss && problem.objective.needs().draws) {
    return SkipReason{"the objective draws lots, by a rule of its own: returns=\"logprobs\""};
  }
  if (!terms.any()) return std::nullopt;
  if (!makes_loss) {
    return SkipReason{"the objective has terms beside log-probabilities: returns=\"loss\""};
  }
  if (problem.makes_teacher() && !declaration.takes_teacher_hidden) {
    return SkipReason{"takes no hidden states of a teacher: takes=\"teacher_hidden\""};
  }
  if (problem.has_teacher() && !problem.makes_teacher() && !declaration.takes_teacher) {
    return SkipReason{"takes no logits of a teacher: takes=\"teacher\""};
  }
  terms.divergence = {};  // comes with the teacher
  if (terms.any() && !declaration.takes_terms) {
    return SkipReason{"the objective has terms beside log-probabilities: takes=\"terms\""};
  }
  return std::nullopt;
}

}  // namespace lossgrid
