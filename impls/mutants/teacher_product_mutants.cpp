// SPDX-License-Identifier: Apache-2.0
// Mutants of the product that makes the logits of a teacher: the weight of another rank, results in
// bf16, and rows of the student's size.
#include <algorithm>

#include "harness/device/memory/host_view.h"
#include "harness/device/memory/staging.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Reads the weight of the next TP rank, for the ids that it has.
void teacher_weight_of_next_rank(const LossProblem& problem, const RankContext& context,
                                 const Gemm& product, std::span<float> workspace) {
  const auto elements = static_cast<std::size_t>(problem.width() * problem.teacher.hidden);
  const auto bytes = static_cast<std::size_t>(problem.teacher_weight_bytes());
  const int ranks = context.tp.size();
  const int next = (context.tp.rank() + 1) % ranks;
  context.device.kernels().gemm(product, workspace);
  Staging shards(context.device, MemorySpace::device);
  std::byte* all = shards.at_least(bytes * static_cast<std::size_t>(ranks));
  context.tp.all_gather(product.b.data, all, elements, product.b.dtype);
  Gemm of_next = product;
  of_next.b.data = all + bytes * static_cast<std::size_t>(next);
  of_next.n = std::min(product.n, vocab_shard(problem.vocab, ranks, next).valid());
  context.device.kernels().gemm(of_next, workspace);
  context.device.synchronise();  // before the shards are freed
}

void teacher_logits_in_bf16(const LossProblem& /*problem*/, const RankContext& context,
                            const Gemm& product, std::span<float> workspace) {
  context.device.kernels().gemm(product, workspace);
  if (product.m == 0 || product.n == 0) return;
  const auto elements = static_cast<std::size_t>((product.m - 1) * product.stride + product.n);
  const HostView rows(context.device, product.c, elements * sizeof(float));
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      float& value = rows.as<float>()[static_cast<std::size_t>(i * product.stride + j)];
      value = static_cast<float>(bf16(value));
    }
  }
  rows.write_back();
}

/// Multiplies as many numbers of a row as the student's hidden states have.
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
