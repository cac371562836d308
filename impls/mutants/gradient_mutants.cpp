// SPDX-License-Identifier: Apache-2.0
// Mutants with wrong gradients and normalisation: factors of cp, missing terms, roundings in the
// wrong place, denominators local to a rank, masks that multiply.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

float loss_counts_fully(int /*cp*/) {
  return 1.0f;
}

void select_only(Communicator& cp, std::span<float> grad) {
  std::vector<float> copy(grad.begin(), grad.end());
  cp.all_reduce(std::span<float>(copy), ReduceOp::sum);
}

void detached(Communicator& cp, std::span<float> grad) {
  cp.all_reduce(grad, ReduceOp::sum);
  std::fill(grad.begin(), grad.end(), 0.0f);
}

std::size_t block_bytes(const LogitsRows& rows) {
  return static_cast<std::size_t>(rows.rows * rows.shard.width) * size_of(rows.dtype);
}

void zero_gradient(const LogitsRows& rows, const RowSoftmax&, const RowGradients&, void* out) {
  std::fill_n(static_cast<std::byte*>(out), block_bytes(rows), std::byte{0});
}

template <int kPerMille>
void scaled_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                     const RowGradients& gradients, void* out) {
  constexpr float kFactor = kPerMille / 1000.0f;
  const auto scaled = [&](const float* column) {
    std::vector<float> values;
    if (column != nullptr) values.assign(column, column + rows.rows);
    for (float& g : values) g *= kFactor;
    return values;
  };
  const std::vector<float> logprob = scaled(gradients.logprob);
  ByGradientTerm<std::vector<float>> terms;
  RowGradients by{logprob.data()};
  for (const RowTerm term : kAllGradientTerms) {
    if (gradients.terms[term] == nullptr || term == RowTerm::divergence) continue;
    terms[term] = scaled(gradients.terms[term]);
    by.terms[term] = terms[term].data();
  }
  rows_gradient(rows, softmax, by, out);
}

/// Calls f(r, logits of the row, gradient of the row) for rows with a gradient.
template <typename F>
void for_each_trained_row(const LogitsRows& rows, const float* grad, void* out, F&& f) {
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (grad[r] == 0) continue;
      f(r, static_cast<const T*>(rows.data) + r * rows.shard.width,
        static_cast<T*>(out) + r * rows.shard.width);
    }
  });
}

void no_softmax_term(const LogitsRows& rows, const RowSoftmax& softmax,
                     const RowGradients& gradients, void* out) {
  const float* grad = gradients.logprob;
  zero_gradient(rows, softmax, gradients, out);
  for_each_trained_row(rows, grad, out, [&](std::int64_t r, const auto*, auto* row) {
    using T = std::remove_reference_t<decltype(*row)>;
    if (rows.shard.owns(rows.targets[r])) row[rows.targets[r] - rows.shard.begin] = T(grad[r]);
  });
}

void onehot_on_every_rank(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  const float* grad = gradients.logprob;
  rows_gradient(rows, softmax, gradients, out);
  for_each_trained_row(rows, grad, out, [&](std::int64_t r, const auto*, auto* row) {
    using T = std::remove_reference_t<decltype(*row)>;
    const std::int64_t column = rows.targets[r] % rows.shard.width;
    if (rows.shard.owns(rows.targets[r]) || column >= rows.shard.valid()) return;
    row[column] = T(static_cast<float>(row[column]) + grad[r]);
  });
}

void probability_rounded_first(const LogitsRows& rows, const RowSoftmax& softmax,
                               const RowGradients& gradients, void* out) {
  const float* grad = gradients.logprob;
  rows_gradient(rows, softmax, gradients, out);
  for_each_trained_row(rows, grad, out, [&](std::int64_t r, const auto* x, auto* row) {
    using T = std::remove_reference_t<decltype(*row)>;
    if (!rows.shard.owns(rows.targets[r])) return;
    const std::int64_t column = rows.targets[r] - rows.shard.begin;
    const bf16 p(std::exp(static_cast<float>(x[column]) - softmax.shift[r]) / softmax.sum[r]);
    row[column] = T(grad[r] * (1.0f - static_cast<float>(p)));
  });
}

void gradient_on_masked_rows(const Objective& objective, const ObjectiveTokens& tokens,
                             const PackedBatch& batch, int,
                             SequenceTable<const double> coefficients,
                             ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto count = static_cast<float>(std::max<std::int64_t>(1, batch.denominators.valid_tokens));
  for (std::size_t t = 0; t < grad.logprob.size(); ++t) {
    if (tokens.valid[t] == 0) grad.logprob[t] = -1.0f / count;
  }
}

void mask_multiplies(const Objective& objective, const ObjectiveTokens& tokens,
                     const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                     ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  for (std::size_t t = 0; t < tokens.logprobs.size(); ++t) {
    if (tokens.valid[t] != 0 || totals.sums.empty()) continue;
    totals.sums[0] -= tokens.logprobs[t] * 0.0f;  // inf * 0 is NaN
  }
}

/// Scales loss and gradient by `factor`, as a wrong denominator does.
void scale_terms(double factor, ObjectiveTotals<double> totals, const TokenGradients& grad) {
  if (!totals.sums.empty()) totals.sums[0] *= factor;
  for (const std::span<float> column : grad.columns()) {
    for (float& g : column) g = static_cast<float>(g * factor);
  }
}

std::int64_t count_valid(const ObjectiveTokens& tokens) {
  return std::count(tokens.valid.begin(), tokens.valid.end(), 1);
}

/// Adds the mean over the valid tokens of this call, divided by `parts`, in place of their sum over
/// the count of the global batch.
void add_local_mean(const Objective& objective, const ObjectiveTokens& tokens,
                    const PackedBatch& batch, SequenceTable<const double> coefficients,
                    ObjectiveTotals<double> totals, const TokenGradients& grad, int parts) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const std::int64_t local = count_valid(tokens);
  if (local == 0) return;
  scale_terms(
      static_cast<double>(batch.denominators.valid_tokens) / static_cast<double>(local * parts),
      totals, grad);
}

void local_denominator(const Objective& objective, const ObjectiveTokens& tokens,
                       const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                       ObjectiveTotals<double> totals, const TokenGradients& grad) {
  add_local_mean(objective, tokens, batch, coefficients, totals, grad, 1);
}

void mean_of_rank_means(const Objective& objective, const ObjectiveTokens& tokens,
                        const PackedBatch& batch, int cp, SequenceTable<const double> coefficients,
                        ObjectiveTotals<double> totals, const TokenGradients& grad) {
  add_local_mean(objective, tokens, batch, coefficients, totals, grad, cp);
}

void mean_of_microbatch_means(const Objective& objective, const ObjectiveTokens& tokens,
                              const PackedBatch& batch, int,
                              SequenceTable<const double> coefficients,
                              ObjectiveTotals<double> totals, const TokenGradients& grad) {
  add_local_mean(objective, tokens, batch, coefficients, totals, grad,
                 batch.microbatch.count * batch.microbatch.dp);
}

void divided_by_microbatches(const Objective& objective, const ObjectiveTokens& tokens,
                             const PackedBatch& batch, int,
                             SequenceTable<const double> coefficients,
                             ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  scale_terms(1.0 / batch.microbatch.count, totals, grad);
}

void epsilon_in_denominator(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, const TokenGradients& grad) {
  constexpr double kEpsilon = 1e-5;
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto count = static_cast<double>(batch.denominators.valid_tokens);
  scale_terms(count / (count + kEpsilon), totals, grad);
}

const RegisteredMutant gradient_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M1",
        .name = "gradient_times_cp",
        .what = "the adjoint of the gather adds up replicated losses",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.loss_share = loss_counts_fully; },
        .seen_in = "NeMo-RL #2242; the same factor: SkyRL #1751",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M2",
        .name = "gradient_over_cp",
        .what = "divided by cp, and the adjoint only selects",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.add_gathered_gradients = select_only; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M3",
        .name = "gather_detached",
        .what = "no gradient flows through the gather",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.add_gathered_gradients = detached; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M20",
        .name = "mean_of_rank_means",
        .what = "the loss is the average of the ranks' means",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = mean_of_rank_means; },
        .seen_in = "Megatron-LM #7498, #7513",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M28",
        .name = "local_denominator",
        .what = "divides by the tokens of its microbatch or rank",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = local_denominator; },
        .seen_in = "prime-rl #2562",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M28",
        .name = "microbatch_denominator",
        .what = "divides by the tokens of its microbatch",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = local_denominator; },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M27",
        .name = "epsilon_in_denominator",
        .what = "divides by the count + 1e-5",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = epsilon_in_denominator; },
        .seen_in = "AReaL, SFT loss",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M53",
        .name = "divided_by_microbatches",
        .what = "the schedule's division by the microbatches is not undone",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = divided_by_microbatches; },
        .seen_in = "AReaL 1.0.4, evaluation loss",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "mean_of_microbatch_means",
        .what = "the average of the microbatches' means",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = mean_of_microbatch_means; },
        .seen_in = "transformers #35203, #35438",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M37",
        .name = "onehot_on_every_rank",
        .what = "ranks that do not own the label subtract it too",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<onehot_on_every_rank>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M51",
        .name = "mask_multiplies",
        .what = "masked terms are multiplied by zero, not selected",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = mask_multiplies; },
        .seen_in = "AReaL 1.0.4, DPO",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "zero_gradient",
        .what = "the gradient is zero",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<zero_gradient>; },
        .seen_in = "Megatron-LM #1627, #1750",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "no_softmax_term",
        .what = "the gradient has no softmax term",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.gradient = gradient_on_host<no_softmax_term>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "gradient_times_2",
        .what = "the gradient is doubled",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<scaled_gradient<2000>>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "gradient_times_1.02",
        .what = "the gradient is 2 % too large",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<scaled_gradient<1020>>; },
        .rejected_by = "grad_logits_bias",
    }),
    RegisteredMutant({
        .name = "gradient_times_1.004",
        .what = "the gradient is 0.4 % too large",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.gradient = gradient_on_host<scaled_gradient<1004>>; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "probability_rounded_first",
        .what = "bf16(p) - 1 instead of bf16(p - 1)",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<probability_rounded_first>; },
        .seen_in = "Liger-Kernel #1329, #1341, #1419",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "gradient_on_masked_rows",
        .what = "rows that are not trained on get a gradient",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = gradient_on_masked_rows; },
        .rejected_by = "masked_rows_zero",
    }),
};

}  // namespace
}  // namespace lossgrid
