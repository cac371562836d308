// SPDX-License-Identifier: Apache-2.0
// `ReferenceTeacher`: the reference's logits of a teacher, gathered from all ranks, or multiplied
// in float64 from its hidden states and weight, which are gathered in the same way. Plain code;
// every rank holds everything.
#pragma once

#include <optional>
#include <span>

#include "impls/reference/reference_inputs.h"

namespace lossgrid {

class ReferenceTeacher {
 public:
  ReferenceTeacher(const LossProblem& problem, RankContext context)
      : problem_(problem),
        context_(context),
        logits_(problem, context, problem.teacher_logits_bytes(), problem.teacher.dtype),
        weight_over_tp_(context.device, problem.teacher_weight_bytes(), problem.grid.tp),
        hidden_over_tp_(context.device, problem.teacher_hidden_bytes(), problem.grid.row_parts()),
        hidden_over_cp_(context.device, problem.teacher_hidden_bytes() * problem.grid.row_parts(),
                        problem.grid.cp) {}

  static void add_cost(const LossProblem& problem, Cost& cost) {
    if (!problem.makes_teacher()) {
      GatheredLogits::add_cost(problem, problem.teacher_logits_bytes(), cost);
      return;
    }
    const int parts = problem.grid.row_parts();
    Gathered::add_cost(problem.teacher_weight_bytes(), problem.grid.tp, cost.forward.tp, cost);
    Gathered::add_cost(problem.teacher_hidden_bytes(), parts, cost.forward.tp, cost);
    Gathered::add_cost(problem.teacher_hidden_bytes() * parts, problem.grid.cp, cost.forward.cp,
                       cost);
    const std::int64_t product = 2 * problem.rows() * problem.vocab * problem.teacher.hidden;
    cost.forward.flops += product;
    cost.backward.flops += product / problem.grid.cp;
  }

  /// Gathers the ranks' parts. Collective.
  void gather(const LossInputs& inputs) {
    if (!problem_.makes_teacher()) {
      logits_.gather(inputs.teacher);
      return;
    }
    const DType dtype = problem_.teacher.dtype;
    weight_over_tp_.gather(context_.tp, inputs.teacher_weight, dtype);
    weight_.emplace(weight_over_tp_.view());
    const void* over_tp = hidden_over_tp_.gather(context_.tp, inputs.teacher_hidden, dtype);
    hidden_over_cp_.gather(context_.cp, over_tp, dtype);
    hidden_.emplace(hidden_over_cp_.view());
  }

  /// Reads all V logits of the row that a CP rank holds at `slot` among its own.
  void read_row(std::int64_t cp_rank, std::int64_t slot, std::span<double> row) const {
    if (!problem_.makes_teacher()) {
      logits_.read_row(cp_rank, slot, row);
      return;
    }
    const std::int64_t size = problem_.teacher.hidden;
    const std::int64_t first = (cp_rank * problem_.local_rows() + slot) * size;
    for (std::int64_t v = 0; v < problem_.vocab; ++v) {
      double sum = 0;
      for (std::int64_t h = 0; h < size; ++h) {
        sum += element(*hidden_, first + h) * element(*weight_, v * size + h);
      }
      row[static_cast<std::size_t>(v)] = sum;
    }
  }

 private:
  double element(const HostView& tensor, std::int64_t k) const {
    const auto place = static_cast<std::size_t>(k);
    return problem_.teacher.dtype == DType::bf16
               ? static_cast<double>(static_cast<float>(tensor.as<bf16>()[place]))
               : static_cast<double>(tensor.as<float>()[place]);
  }

  const LossProblem& problem_;
  RankContext context_;
  GatheredLogits logits_;
  Gathered weight_over_tp_;
  Gathered hidden_over_tp_;
  Gathered hidden_over_cp_;
  std::optional<HostView> weight_;  // [tp] shards
  std::optional<HostView> hidden_;  // [cp][T_c][N]
};

}  // namespace lossgrid
