// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/loss_problem.h"

#include <fmt/format.h>

#include "harness/core/error.h"

namespace lossgrid {

LossProblem make_loss_problem(const Problem& problem, const PackedBatch& batch, const Grid& grid,
                              const Objective& objective, Backend backend) {
  const CaseSpec& spec = problem.spec;
  return {.batch = batch,
          .vocab = spec.vocab,
          .dtype = spec.dtype,
          .grid = grid,
          .objective = objective,
          .objective_spec = spec.objective,
          .head = {spec.hidden, spec.weight_layout, spec.lm_head_bias},
          .backend = backend,
          .transform = problem.transform(),
          .teacher = {problem.teacher_dtype, spec.teacher_topk > 0, problem.teacher_transform(),
                      spec.teacher_hidden},
          .sampling = {problem.sampling_mask != nullptr, problem.zeroes_filtered_targets()}};
}

std::optional<SkipReason> inputs_mismatch(const LossImplementation& implementation,
                                          bool from_hidden) {
  const InputKind takes = implementation.describe().inputs;
  if (takes == InputKind::logits && from_hidden) {
    return SkipReason{"takes logits; the case starts from hidden states"};
  }
  if (takes == InputKind::hidden && !from_hidden) {
    return SkipReason{"takes hidden states; the case starts from logits"};
  }
  return std::nullopt;
}

std::optional<SkipReason> padding_misfit(const Problem& problem, const Padding& padding,
                                         const Grid& grid) {
  if (padding.is_any()) return std::nullopt;
  try {
    // A layout depends on nothing but lengths.
    Problem padded;
    padded.spec = problem.spec;
    padded.lengths = problem.lengths;
    padded.padding = joined(problem.padding, padding);
    require_fits(padded, grid);
    return std::nullopt;
  } catch (const Error& error) {
    return SkipReason{fmt::format("needs {}: {}", describe(padding), error.what())};
  }
}

std::optional<SkipReason> not_applicable(const LossImplementation& implementation,
                                         const Problem& problem, const Grid& grid) {
  if (auto reason = inputs_mismatch(implementation, problem.spec.hidden > 0)) return reason;
  return padding_misfit(problem, implementation.describe().padding, grid);
}

ScaleSizes scale_sizes(const Problem& problem, const Grid& grid) {
  return {grid.dp, grid.cp, problem.spec.microbatches};
}

}  // namespace lossgrid
