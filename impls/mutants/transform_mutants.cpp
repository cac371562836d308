// SPDX-License-Identifier: Apache-2.0
// Mutants of logit scale and soft-cap, or of any map of logits: steps in another order, slopes that
// are lost, logits that are mapped twice or not at all, roundings, an entropy of the model's
// logits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool maps_rows(const LossProblem& problem) {
  return !problem.row_transform().is_identity();
}

bool caps(const LossProblem& problem) {
  return problem.transform.softcap > 0;
}

/// Caps s x / T at c, in the place of s x.
void softcap_after_temperature(LogitTransform& transform) {
  if (transform.softcap == 0) return;
  transform.scale /= transform.temperature;
  transform.temperature = 1;
}

/// s c tanh(x / c) / T.
void scale_after_softcap(LogitTransform& transform) {
  if (transform.softcap == 0) return;
  transform.temperature /= transform.scale;
  transform.scale = 1;
}

void without_scale(LogitTransform& transform) {
  transform.scale = 1;
}

void gradient_by_mapped(const LogitsRows& rows, const RowSoftmax& softmax,
                        const RowGradients& gradients, void* out) {
  gradient_through(rows, transformed_rows(rows), softmax, gradients, out,
                   [](std::int64_t, double) { return 1.0f; });
}

void slope_of_tanh_missing(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, void* out) {
  gradient_through(rows, transformed_rows(rows), softmax, gradients, out,
                   [&](std::int64_t r, double) { return rows.transforms[r].factor; });
}

/// Reads the logits of the model in the backward pass as if they were mapped.
void not_mapped_again(const LogitsRows& rows, const RowSoftmax& softmax,
                      const RowGradients& gradients, void* out) {
  LogitsRows given = rows;
  given.transforms = nullptr;
  rows_gradient(given, softmax, gradients, out);
}

/// Maps logits in the backward pass that the forward pass has mapped in place.
void mapped_twice(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                  void* out) {
  const MappedRows once = transformed_rows(rows);
  LogitsRows again = once.rows();
  again.transforms = rows.transforms;
  gradient_through(rows, transformed_rows(again), softmax, gradients, out,
                   [&](std::int64_t r, double z) { return slope_of(rows, r, z); });
}

float tanh_in_bf16(const RowTransform& row, float x) {
  if (std::isinf(x)) return x;
  return row.limit * static_cast<float>(bf16(std::tanh(row.factor * x / row.limit)));
}

float capped_minus_infinity(const RowTransform& row, float x) {
  return row.limit * std::tanh(row.factor * x / row.limit);
}

/// Entropies of the model's logits, of the last statistics that the rank, a thread, has made.
thread_local std::vector<float> kept_entropies;

/// Keeps them; the shard is the vocabulary.
std::int64_t keep_given_entropies(const LogitsRows& rows, const RowStatistics& out) {
  if (out.weighted != nullptr) {
    LogitsRows given = rows;
    given.transforms = nullptr;
    rows_statistics(given, out);
    kept_entropies.clear();
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      kept_entropies.push_back(std::log(out.sum[r]) - out.weighted[r] / out.sum[r]);
    }
  }
  return rows_statistics(rows, out);
}

void write_kept_entropies(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[RowTerm::entropy] == nullptr) return;
    write.out.terms[RowTerm::entropy][r] = kept_entropies[static_cast<std::size_t>(r)];
  });
}

const RegisteredMutant transform_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M93",
        .name = "slope_missing",
        .what = "the gradient is by the mapped logits",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_by_mapped>; },
        .runs_on = maps_rows,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M94",
        .name = "slope_of_softcap_missing",
        .what = "the slope of the soft-cap is 1 in the place of 1 - tanh^2",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.gradient = gradient_on_host<slope_of_tanh_missing>; },
        .runs_on = caps,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M94",
        .name = "linear_slope_of_softcap_missing",
        .what = "the slope of the soft-cap is 1 in the place of 1 - tanh^2",
        .strategy = "linear_ce_onepass",
        .change = [](Steps& s) { s.gradient = gradient_on_host<slope_of_tanh_missing>; },
        .runs_on = caps,
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M93",
        .name = "linear_slope_missing",
        .what = "d hidden and d weight are made of the gradient by the mapped logits",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_by_mapped>; },
        .runs_on = maps_rows,
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M95",
        .name = "linear_not_mapped_again",
        .what = "the backward pass makes the logits again, but not their soft-cap and temperature",
        .strategy = "linear_ce",
        .change = [](Steps& s) { s.gradient = gradient_on_host<not_mapped_again>; },
        .runs_on = maps_rows,
        .rejected_by = "grad_hidden",
    }),
    RegisteredMutant({
        .catalogue_id = "M95",
        .name = "mapped_twice",
        .what = "the backward pass maps logits that the forward pass has mapped in place",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.gradient = gradient_on_host<mapped_twice>; },
        .runs_on = maps_rows,
        .seen_in = "NeMo-RL, draft loss on logits divided in place",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M96",
        .name = "softcap_after_temperature",
        .what = "the soft-cap is applied to logits divided by the temperature",
        .strategy = "fused",
        .transform = softcap_after_temperature,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M96",
        .name = "scale_after_softcap",
        .what = "the logit scale multiplies the soft-capped logits",
        .strategy = "cp_local",
        .transform = scale_after_softcap,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M96",
        .name = "linear_softcap_after_temperature",
        .what = "the soft-cap is applied to logits divided by the temperature",
        .strategy = "linear_materialized",
        .transform = softcap_after_temperature,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M97",
        .name = "logit_scale_missing",
        .what = "logits are not multiplied by the logit scale",
        .strategy = "cp_gather_logits",
        .transform = without_scale,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M99",
        .name = "tanh_in_bf16",
        .what = "the tanh of the soft-cap is rounded to bf16, the dtype of the logits",
        .strategy = "cp_local",
        .change = map_rows_by<tanh_in_bf16>,
        .runs_on =
            [](const LossProblem& problem) {
              return caps(problem) && problem.dtype == DType::bf16;
            },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M100",
        .name = "softcap_of_masked_vocab",
        .what = "logits of -inf are capped, at a probability above 0",
        .strategy = "cp_gather_logits",
        .change = map_rows_by<capped_minus_infinity>,
        .runs_on = caps,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M102",
        .name = "entropy_of_given_logits",
        .what = "the entropy is that of the logits before soft-cap and temperature",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<keep_given_entropies>;
              s.write_outputs = write_kept_entropies;
            },
        .runs_on =
            [](const LossProblem& problem) { return maps_rows(problem) && problem.grid.tp == 1; },
        .rejected_by = "entropy",
    }),
};

}  // namespace
}  // namespace lossgrid
