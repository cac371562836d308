// SPDX-License-Identifier: Apache-2.0
// Mutants of the bias of an lm_head: added at the wrong place or of another rank, or with a
// gradient that is not added up over chunks or CP ranks.
#include "impls/mutants/changed_product.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

bool has_head_bias(const LossProblem& problem) {
  return problem.head.has_bias;
}

/// True if the product with the hidden states is multiplied by a factor.
bool has_scaled_bias(const LossProblem& problem) {
  return problem.head.has_bias && problem.product_alpha() != 1;
}

void run_with_alpha(const RankContext& context, Gemm product, float alpha,
                    std::span<float> workspace) {
  product.alpha = alpha;
  context.device.kernels().gemm(product, workspace);
}

void bias_unscaled(const RankContext& context, const Gemm& product, std::span<float> workspace) {
  run_with_alpha(context, product, 1, workspace);
}

void bias_doubled(const RankContext& context, const Gemm& product, std::span<float> workspace) {
  run_with_alpha(context, product, 2 * product.alpha, workspace);
}

/// Reads the shard of the next TP rank.
void bias_of_next_rank(const RankContext& context, const Gemm& product,
                       std::span<float> workspace) {
  multiply_by_shard_of_next_rank(context, product, product.b.stride, workspace);
}

void bias_grad_of_first_cp_rank(const RankContext& context, const Gemm& product,
                                std::span<float> workspace) {
  if (context.cp.rank() == 0) context.device.kernels().gemm(product, workspace);
}

void bias_grad_overwritten(const RankContext& context, const Gemm& product,
                           std::span<float> workspace) {
  Gemm alone = product;
  alone.accumulate = false;
  context.device.kernels().gemm(alone, workspace);
}

const RegisteredMutant bias_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M200",
        .name = "bias_after_scale",
        .what = "the bias is added behind scale and temperature",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.write_bias = bias_unscaled; },
        .runs_on = has_scaled_bias,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M201",
        .name = "bias_twice",
        .what = "the bias is added twice",
        .strategy = "linear_materialized",
        .change = [](Steps& s) { s.write_bias = bias_doubled; },
        .runs_on = has_head_bias,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M202",
        .name = "bias_of_neighbour",
        .what = "the bias of the vocab shard of the next TP rank",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.write_bias = bias_of_next_rank; },
        .runs_on =
            [](const LossProblem& problem) { return problem.head.has_bias && problem.grid.tp > 1; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M203",
        .name = "bias_grad_of_first_cp_rank",
        .what = "d bias of the rows of the first CP rank alone",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.add_grad_bias = bias_grad_of_first_cp_rank; },
        .runs_on =
            [](const LossProblem& problem) { return problem.head.has_bias && problem.grid.cp > 1; },
        .rejected_by = "grad_bias",
    }),
    RegisteredMutant({
        .catalogue_id = "M204",
        .name = "bias_grad_overwritten",
        .what = "d bias of the last chunk in place of the sum",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.add_grad_bias = bias_grad_overwritten; },
        .options = {{"chunk_tokens", "3"}},
        .runs_on = has_head_bias,
        .rejected_by = "grad_bias",
    }),
    RegisteredMutant({
        .catalogue_id = "M205",
        .name = "bias_grad_without_temperature",
        .what = "d bias not divided by the temperature",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.add_grad_bias = bias_unscaled; },
        .runs_on = has_scaled_bias,
        .rejected_by = "grad_bias",
    }),
    RegisteredMutant({
        .catalogue_id = "M205",
        .name = "bias_in_bf16",
        .what = "the bias over the temperature is rounded to bf16",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.write_bias = multiply_to_bf16; },
        .runs_on =
            [](const LossProblem& problem) {
              return problem.head.has_bias &&
                     (problem.dtype != DType::bf16 || problem.product_alpha() != 1);
            },
        .rejected_by = "logprobs",
    }),
};

}  // namespace
}  // namespace lossgrid
