// SPDX-License-Identifier: Apache-2.0
// Wrong gradients and wrong normalisation: factors of cp, terms left out, roundings in the wrong
// place, denominators local to a rank, masks that multiply.
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

void zero_gradient(const LogitsRows& rows, const float*, const float*, const float*, void* out) {
  std::fill_n(static_cast<std::byte*>(out), block_bytes(rows), std::byte{0});
}

template <int kPerMille>
void scaled_gradient(const LogitsRows& rows, const float* max, const float* sum, const float* grad,
                     void* out) {
  std::vector<float> scaled(grad, grad + rows.rows);
  for (float& g : scaled) g *= kPerMille / 1000.0f;
  rows_gradient(rows, max, sum, scaled.data(), out);
}

/// Calls f(r, logits of the row, gradient of the row) for rows that take part.
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

void no_softmax_term(const LogitsRows& rows, const float*, const float*, const float* grad,
                     void* out) {
  zero_gradient(rows, nullptr, nullptr, nullptr, out);
  for_each_trained_row(rows, grad, out, [&](std::int64_t r, const auto*, auto* row) {
    using T = std::remove_reference_t<decltype(*row)>;
    if (rows.shard.owns(rows.targets[r])) row[rows.targets[r] - rows.shard.begin] = T(grad[r]);
  });
}

void onehot_on_every_rank(const LogitsRows& rows, const float* max, const float* sum,
                          const float* grad, void* out) {
  rows_gradient(rows, max, sum, grad, out);
  for_each_trained_row(rows, grad, out, [&](std::int64_t r, const auto*, auto* row) {
    using T = std::remove_reference_t<decltype(*row)>;
    const std::int64_t column = rows.targets[r] % rows.shard.width;
    if (rows.shard.owns(rows.targets[r]) || column >= rows.shard.valid()) return;
    row[column] = T(static_cast<float>(row[column]) + grad[r]);
  });
}

void probability_rounded_first(const LogitsRows& rows, const float* max, const float* sum,
                               const float* grad, void* out) {
  rows_gradient(rows, max, sum, grad, out);
  for_each_trained_row(rows, grad, out, [&](std::int64_t r, const auto* x, auto* row) {
    using T = std::remove_reference_t<decltype(*row)>;
    if (!rows.shard.owns(rows.targets[r])) return;
    const std::int64_t column = rows.targets[r] - rows.shard.begin;
    const bf16 p(std::exp(static_cast<float>(x[column]) - max[r]) / sum[r]);
    row[column] = T(grad[r] * (1.0f - static_cast<float>(p)));
  });
}

void gradient_on_masked_rows(const Objective& objective, const ObjectiveTokens& tokens,
                             const PackedBatch& batch, int,
                             SequenceTable<const double> coefficients,
                             ObjectiveTotals<double> totals, std::span<float> grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto count = static_cast<float>(std::max<std::int64_t>(1, batch.denominators.valid_tokens));
  for (std::size_t t = 0; t < grad.size(); ++t) {
    if (tokens.valid[t] == 0) grad[t] = -1.0f / count;
  }
}

void mask_multiplies(const Objective& objective, const ObjectiveTokens& tokens,
                     const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                     ObjectiveTotals<double> totals, std::span<float> grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  for (std::size_t t = 0; t < tokens.logprobs.size(); ++t) {
    if (tokens.valid[t] != 0 || totals.sums.empty()) continue;
    totals.sums[0] -= tokens.logprobs[t] * 0.0f;  // inf * 0 is NaN
  }
}

/// Scales loss and gradient by `factor`: what a wrong denominator does.
void scale_terms(double factor, ObjectiveTotals<double> totals, std::span<float> grad) {
  if (!totals.sums.empty()) totals.sums[0] *= factor;
  for (float& g : grad) g = static_cast<float>(g * factor);
}

std::int64_t count_valid(const ObjectiveTokens& tokens) {
  return std::count(tokens.valid.begin(), tokens.valid.end(), 1);
}

/// The mean over the valid tokens that this call sees, divided by `parts`, instead of the sum over
/// those of the global batch.
void add_local_mean(const Objective& objective, const ObjectiveTokens& tokens,
                    const PackedBatch& batch, SequenceTable<const double> coefficients,
                    ObjectiveTotals<double> totals, std::span<float> grad, int parts) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const std::int64_t local = count_valid(tokens);
  if (local == 0) return;
  scale_terms(
      static_cast<double>(batch.denominators.valid_tokens) / static_cast<double>(local * parts),
      totals, grad);
}

void local_denominator(const Objective& objective, const ObjectiveTokens& tokens,
                       const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                       ObjectiveTotals<double> totals, std::span<float> grad) {
  add_local_mean(objective, tokens, batch, coefficients, totals, grad, 1);
}

void mean_of_rank_means(const Objective& objective, const ObjectiveTokens& tokens,
                        const PackedBatch& batch, int cp, SequenceTable<const double> coefficients,
                        ObjectiveTotals<double> totals, std::span<float> grad) {
  add_local_mean(objective, tokens, batch, coefficients, totals, grad, cp);
}

void mean_of_microbatch_means(const Objective& objective, const ObjectiveTokens& tokens,
                              const PackedBatch& batch, int,
                              SequenceTable<const double> coefficients,
                              ObjectiveTotals<double> totals, std::span<float> grad) {
  add_local_mean(objective, tokens, batch, coefficients, totals, grad,
                 batch.microbatch.count * batch.microbatch.dp);
}

void divided_by_microbatches(const Objective& objective, const ObjectiveTokens& tokens,
                             const PackedBatch& batch, int,
                             SequenceTable<const double> coefficients,
                             ObjectiveTotals<double> totals, std::span<float> grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  scale_terms(1.0 / batch.microbatch.count, totals, grad);
}

void epsilon_in_denominator(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, std::span<float> grad) {
  constexpr double kEpsilon = 1e-5;
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto count = static_cast<double>(batch.denominators.valid_tokens);
  scale_terms(count / (count + kEpsilon), totals, grad);
}

const RegisteredMutant mutants[] = {
    RegisteredMutant({"M1", "gradient_times_cp",
                      "the adjoint of the gather adds up replicated losses", "per_sequence",
                      [](Steps& s) { s.loss_share = loss_counts_fully; }}),
    RegisteredMutant({"M2", "gradient_over_cp", "divided by cp, and the adjoint only selects",
                      "per_sequence", [](Steps& s) { s.add_gathered_gradients = select_only; }}),
    RegisteredMutant({"M3", "gather_detached", "no gradient flows through the gather",
                      "per_sequence", [](Steps& s) { s.add_gathered_gradients = detached; }}),
    RegisteredMutant({"M20", "mean_of_rank_means", "the loss is the average of the ranks' means",
                      "cp_local", [](Steps& s) { s.token_terms = mean_of_rank_means; }}),
    RegisteredMutant({"M28", "local_denominator", "divides by the tokens of its microbatch or rank",
                      "cp_local", [](Steps& s) { s.token_terms = local_denominator; }}),
    RegisteredMutant({"M28", "microbatch_denominator", "divides by the tokens of its microbatch",
                      "fused", [](Steps& s) { s.token_terms = local_denominator; }}),
    RegisteredMutant({"M27", "epsilon_in_denominator", "divides by the count + 1e-5", "fused",
                      [](Steps& s) { s.token_terms = epsilon_in_denominator; }}),
    RegisteredMutant({"M53", "divided_by_microbatches",
                      "the schedule's division by the microbatches is not undone", "fused",
                      [](Steps& s) { s.token_terms = divided_by_microbatches; }}),
    RegisteredMutant({"", "mean_of_microbatch_means", "the average of the microbatches' means",
                      "fused", [](Steps& s) { s.token_terms = mean_of_microbatch_means; }}),
    RegisteredMutant({"M37", "onehot_on_every_rank",
                      "ranks that do not own the label subtract it too", "fused",
                      [](Steps& s) { s.gradient = gradient_on_host<onehot_on_every_rank>; }}),
    RegisteredMutant({"M51", "mask_multiplies", "masked terms are multiplied by zero, not selected",
                      "fused", [](Steps& s) { s.token_terms = mask_multiplies; }}),
    RegisteredMutant({"", "zero_gradient", "the gradient is zero", "fused",
                      [](Steps& s) { s.gradient = gradient_on_host<zero_gradient>; }}),
    RegisteredMutant({"", "no_softmax_term", "the gradient has no softmax term", "cp_local",
                      [](Steps& s) { s.gradient = gradient_on_host<no_softmax_term>; }}),
    RegisteredMutant({"", "gradient_times_2", "the gradient is doubled", "fused",
                      [](Steps& s) { s.gradient = gradient_on_host<scaled_gradient<2000>>; }}),
    RegisteredMutant({"", "gradient_times_1.02", "the gradient is 2 % too large", "fused",
                      [](Steps& s) { s.gradient = gradient_on_host<scaled_gradient<1020>>; }}),
    RegisteredMutant({"", "gradient_times_1.004", "the gradient is 0.4 % too large", "cp_local",
                      [](Steps& s) { s.gradient = gradient_on_host<scaled_gradient<1004>>; }}),
    RegisteredMutant({"", "probability_rounded_first", "bf16(p) - 1 instead of bf16(p - 1)",
                      "fused",
                      [](Steps& s) { s.gradient = gradient_on_host<probability_rounded_first>; }}),
    RegisteredMutant({"", "gradient_on_masked_rows", "rows that are not trained on get a gradient",
                      "fused", [](Steps& s) { s.token_terms = gradient_on_masked_rows; }}),
};

}  // namespace
}  // namespace lossgrid
