// SPDX-License-Identifier: Apache-2.0
// Mutants after mistakes that were seen in released packages (docs/findings.md) and that no other
// file here holds: sums of raw logits, factors of a schedule, denominators of padding and of
// filters, saved tensors that are written to, gradients in bf16 that nothing declares.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Computes the entropy as max + ln s - sum p x: the sum is of the logits, not of their distances
/// to the maximum. It is exact but for its result in float32.
std::int64_t entropy_of_raw_logits(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.weighted == nullptr) return owned;
  dispatch_floating(rows.dtype, [&](auto zero) {
    const auto* x = static_cast<const decltype(zero)*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r, x += rows.shard.width) {
      if (rows.targets[r] < 0 || out.sum[r] == 0) continue;
      double sum = 0;
      double weighted = 0;
      for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
        const auto e = static_cast<double>(std::exp(distance_to_shift(x[v], out.shift[r])));
        if (e == 0) continue;
        sum += e;
        weighted += e * static_cast<double>(to_float(x[v]));
      }
      out.weighted[r] = out.sum[r] * (static_cast<float>(weighted / sum) - out.shift[r]);
    }
  });
  return owned;
}

/// Returns the loss as the schedule has changed it in place, for its own backward pass: times cp,
/// divided by the microbatches.
ObjectiveResult loss_of_schedule(const Objective& objective, const PackedBatch& batch, int cp,
                                 SequenceTable<const double> sums,
                                 SequenceTable<const double> coefficients,
                                 ObjectiveTotals<const double> totals) {
  ObjectiveResult result = objective.finish(batch, sums, coefficients, totals);
  result.loss *= static_cast<double>(cp) / batch.microbatch.count;
  return result;
}

/// Runs the backward pass on saved logits in which the forward pass has left exponentials.
void gradient_of_exponentials(const LogitsRows& rows, const RowSoftmax& softmax,
                              const RowGradients& gradients, void* out) {
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(rows.data);
    std::vector<T> saved(x, x + rows.rows * rows.shard.width);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      if (gradients.logprob[r] == 0) continue;
      for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
        T& logit = saved[static_cast<std::size_t>(r * rows.shard.width + v)];
        logit = T(std::exp(distance_to_shift(logit, softmax.shift[r])));
      }
    }
    LogitsRows of_saved = rows;
    of_saved.data = saved.data();
    rows_gradient(of_saved, softmax, gradients, out);
  });
}

/// Rounds the gradient of float32 logits to bf16.
void gradient_in_bf16(const LogitsRows& rows, const RowSoftmax& softmax,
                      const RowGradients& gradients, void* out) {
  rows_gradient(rows, softmax, gradients, out);
  if (rows.dtype != DType::f32) return;
  auto* values = static_cast<float*>(out);
  std::transform(values, values + rows.rows * rows.shard.width, values,
                 [](float value) { return static_cast<float>(bf16(value)); });
}

/// Divides by the rows of the padded microbatch, sequences times the longest one, and averages over
/// the microbatches.
void width_of_microbatch(const Objective& objective, const ObjectiveTokens& tokens,
                         const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                         ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  std::int64_t width = 1;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) width = std::max(width, batch.length(i));
  const std::int64_t parts = batch.microbatch.count * batch.microbatch.dp;
  const double factor =
      static_cast<double>(batch.denominators.valid_tokens) /
      static_cast<double>(width * std::max<std::int64_t>(1, batch.sequences()) * parts);
  if (!totals.sums.empty()) totals.sums[0] *= factor;
  for (const std::span<float> column : grad.columns()) {
    for (float& g : column) g = static_cast<float>(g * factor);
  }
}

/// Counts tokens that a mask takes out of the sum, as a filter of the top k does.
void filter_not_in_denominators(PackedBatch& batch) {
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.sample_mask[i] == 0) continue;
    for (std::int64_t t = 1; t < batch.length(i); ++t) {
      if (batch.token_mask[batch.cu_seqlens[i] + t] == 0) ++batch.denominators.valid_tokens;
    }
  }
}

const RegisteredMutant released_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M64",
        .name = "entropy_of_raw_logits",
        .what = "max + ln s - sum p x of the logits themselves, which cancels with an offset",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<entropy_of_raw_logits>; },
        .seen_in = "verl 0.9.1, AReaL 1.0.4, SkyRL 0.3.0",
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M65",
        .name = "loss_of_schedule",
        .what = "the loss that is returned is cp / microbatches times the right one; its gradient "
                "is right",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.finish = loss_of_schedule; },
        .seen_in = "AReaL 1.0.4, evaluation loss",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M66",
        .name = "saved_logits_overwritten",
        .what = "the backward of a chunk reads saved logits where the forward left exponentials",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_of_exponentials>; },
        .options = {{"chunk_tokens", "7"}},
        .seen_in = "verl 0.9.1, chunked entropy, where autograd raises",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M67",
        .name = "filter_not_in_denominators",
        .what = "tokens that a mask drops, as a filter of the top k does, stay in the denominators",
        .strategy = "fused",
        .batch = filter_not_in_denominators,
        .seen_in = "AReaL 1.0.4, M2PO",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M68",
        .name = "width_of_microbatch",
        .what = "divides by the padded width of its microbatch",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = width_of_microbatch; },
        .seen_in = "verl 0.9.1, seq-mean-token-sum-norm; Liger-Kernel 0.8.5, LUSPO",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M70",
        .name = "gradient_in_bf16",
        .what = "the gradient of float32 logits is rounded to bf16",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_in_bf16>; },
        .seen_in = "megatron-core 0.16.1, fused cross entropy",
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
