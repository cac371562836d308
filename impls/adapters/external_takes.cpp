// SPDX-License-Identifier: Apache-2.0
#include "impls/adapters/external_takes.h"

#include <fmt/format.h>

namespace lossgrid {
namespace {

/// Returns true for numbers of a row, other than its log-probability, that a function returns.
bool returns_number(const ExternalDeclaration& declaration, RowTerm term) {
  return term == RowTerm::entropy && declaration.returns_entropy;
}

/// Returns the reason why lossgrid cannot make the loss from the function's results: the first
/// number of a row on which the loss depends and which the function does not return.
std::optional<SkipReason> lacks_number(const ExternalDeclaration& declaration,
                                       const LossProblem& problem) {
  for (const RowTerm term : kAllRowTerms) {
    if (!problem.objective.loss_reads(term) || returns_number(declaration, term)) continue;
    switch (term) {
      case RowTerm::divergence:
        return SkipReason{
            "the loss is a divergence from a teacher: returns=\"loss\" and takes=\"teacher\""};
      case RowTerm::entropy:
        return SkipReason{
            "the loss depends on the entropy of a row: returns=(\"logprobs\", \"entropy\"), or "
            "returns=\"loss\" and takes=\"terms\""};
      default:
        return SkipReason{
            fmt::format("the loss depends on {} of a row, which is not returned: "
                        "returns=\"loss\" and takes=\"terms\"",
                        name(term))};
    }
  }
  return std::nullopt;
}

/// Returns the reason why a function that makes the loss itself does not get the objective.
std::optional<SkipReason> makes_no_such_loss(const ExternalDeclaration& declaration,
                                             const LossProblem& problem) {
  if (problem.objective.needs().draws) {
    return SkipReason{"the objective draws lots, by a rule of its own: returns=\"logprobs\""};
  }
  if (problem.objective.needs().probability_weights && !declaration.takes_also("terms")) {
    return SkipReason{"the objective weighs tokens by their probability: takes=\"terms\""};
  }
  for (const RowTerm term : kAllRowTerms) {
    if (!problem.objective.loss_reads(term)) continue;
    if (term != RowTerm::divergence) {
      if (declaration.takes_also("terms")) continue;
      return SkipReason{
          fmt::format("the loss depends on {} of a row: takes=\"terms\"", name(term))};
    }
    if (problem.makes_teacher() && !declaration.takes_also("teacher_hidden")) {
      return SkipReason{"takes no hidden states of a teacher: takes=\"teacher_hidden\""};
    }
    if (!problem.makes_teacher() && !declaration.takes_also("teacher")) {
      return SkipReason{"takes no logits of a teacher: takes=\"teacher\""};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<SkipReason> not_taken(const ExternalDeclaration& declaration,
                                    const LossProblem& problem) {
  const bool has_values = problem.objective.needs().head != Head::lm;
  if (has_values && !declaration.takes_also("values")) {
    return SkipReason{"takes no head without a vocabulary: takes=\"values\""};
  }
  if (problem.sampling.has_mask && !declaration.takes_also("sampling_mask")) {
    return SkipReason{"takes no sampling mask: takes=\"sampling_mask\""};
  }
  const bool is_transformed = !problem.row_transform().is_identity() ||
                              (problem.from_hidden() && problem.transform.scale != 1);
  if (is_transformed && !declaration.takes_also("transforms")) {
    return SkipReason{"takes no logits that are scaled, capped or divided: takes=\"transforms\""};
  }
  if (problem.transform.by_sequence && !declaration.takes_also("sequence_temperatures")) {
    return SkipReason{"takes no temperatures by sequence: takes=\"sequence_temperatures\""};
  }
  if (problem.head.has_bias && !declaration.takes_also("bias")) {
    return SkipReason{"takes no bias of the LM head: takes=\"bias\""};
  }
  if (problem.grid.cp_layout != CpLayout::zigzag && !declaration.takes_also("layouts")) {
    return SkipReason{"takes no CP layout but zigzag: takes=\"layouts\""};
  }
  if (has_values) return std::nullopt;  // the number of a row is the value itself
  return declaration.returns_logprobs ? lacks_number(declaration, problem)
                                      : makes_no_such_loss(declaration, problem);
}

}  // namespace lossgrid
