// SPDX-License-Identifier: Apache-2.0
// Mutants of the product that makes the logits of a teacher: the weight of another rank, results in
// bf16, and rows of the student's size.
#include <algorithm>

#include "impls/mutants/changed_product.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Reads the weight of the next TP rank, for the ids of that rank.
void teacher_weight_of_next_rank(const LossProblem& problem, const RankContext& context,
                                 const Gemm& product, std::span<float> workspace) {
  const int ranks = context.tp.size();
  const int next = (context.tp.rank() + 1) % ranks;
  context.device.kernels().gemm(product, workspace);
  Gemm of_next = product;
  of_next.n = std::min(product.n, vocab_shard(problem.vocab, ranks, next).valid());
  multiply_by_shard_of_next_rank(context, of_next, problem.width() * problem.teacher.hidden,
                                 workspace);
}

void teacher_logits_in_bf16(const LossProblem& /*problem*/, const RankContext& context,
                            const Gemm& product, std::span<float> workspace) {
  multiply_to_bf16(context, product, workspace);
}

/// Multiplies only as many numbers of a row as a row of the student's hidden states has.
void teacher_rows_of_student_size(const LossProblem& problem, const RankContext& context,
                                  const Gemm& product, std::span<float> workspace) {
  Gemm shorter = product;
  shorter.k = problem.head.hidden;
  context.device.kernels().gemm(shorter, workspace);
}

const RegisteredMutant teacher_product_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M145",
        .name = "teacher_weight_of_neighbour",
        .what = "the logits of a teacher by the weight of the next TP rank",
        .strategy = "fused",
        .change = [](Steps& s) { s.teacher_product = teacher_weight_of_next_rank; },
        .runs_on =
            [](const LossProblem& problem) {
              return problem.makes_teacher() && problem.grid.tp > 1;
            },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M147",
        .name = "teacher_logits_in_bf16",
        .what = "the product of a teacher's hidden states and weight is rounded to bf16",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.teacher_product = teacher_logits_in_bf16; },
        .runs_on = [](const LossProblem& problem) { return problem.makes_teacher(); },
        .rejected_by = "divergence",
    }),
    RegisteredMutant({
        .catalogue_id = "M148",
        .name = "teacher_size_of_student",
        .what = "the hidden states of a teacher count for as many numbers as those of the student",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.teacher_product = teacher_rows_of_student_size; },
        .runs_on =
            [](const LossProblem& problem) {
              return problem.makes_teacher() && problem.from_hidden() &&
                     problem.head.hidden < problem.teacher.hidden;
            },
        .rejected_by = "divergence",
    }),
};

}  // namespace
}  // namespace lossgrid
