// SPDX-License-Identifier: Apache-2.0
// Mutants of logit scale, soft-cap and temperature: steps in another order, slopes that are lost,
// temperatures of another sequence, roundings to bf16, logits that are mapped twice or not at all,
// and numbers of the model's logits where those of the policy are asked for.
#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/device/kernel/items.h"
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

bool has_sequence_temperatures(const LossProblem& problem) {
  return problem.transform.by_sequence;
}

bool is_one_sequence_factor(const LossProblem& problem) {
  return maps_rows(problem) && !caps(problem);
}

float rounded_to_bf16(float x) {
  return static_cast<float>(bf16(x));
}

/// Calls f(row's transform, x) for a logit as float32, and returns what it returns.
template <typename F>
MappedRows mapped_in_float(const LogitsRows& rows, F&& f) {
  return MappedRows(rows, [&](std::int64_t r, auto x) -> decltype(x) {
    return f(rows.transforms[r], static_cast<float>(x));
  });
}

// --- maps of the whole problem
// --------------------------------------------------------------------

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

void multiplied_by_temperature(LogitTransform& transform) {
  transform.temperature = 1 / transform.temperature;
}

void without_scale(LogitTransform& transform) {
  transform.scale = 1;
}

void temperature_in_bf16(LogitTransform& transform) {
  transform.temperature = rounded_to_bf16(static_cast<float>(transform.temperature));
}

// --- temperatures by sequence
// ---------------------------------------------------------------------

void of_next_sequence(PackedBatch& batch) {
  std::vector<float>& all = batch.temperatures;
  if (!all.empty()) std::rotate(all.begin(), all.begin() + 1, all.end());
}

void of_first_sequence(PackedBatch& batch) {
  std::vector<float>& all = batch.temperatures;
  if (!all.empty()) std::fill(all.begin(), all.end(), all.front());
}

void each_in_bf16(PackedBatch& batch) {
  for (float& temperature : batch.temperatures) temperature = rounded_to_bf16(temperature);
}

/// Indexes temperatures of the whole pack with rows of a CP rank. In `fused`, nothing else depends
/// on the sequences of these rows.
ShiftedBatch sequences_of_unsplit_rows(const PackedBatch& batch, const Steps& steps, int cp,
                                       int cp_rank) {
  ShiftedBatch rows = Steps().local_targets(batch, steps, cp, cp_rank);
  const ShiftedBatch pack = steps.shift(batch);
  std::copy_n(pack.sequence.begin(), rows.sequence.size(), rows.sequence.begin());
  return rows;
}

/// Returns the transforms of rows after their temperatures were rolled along with the labels.
std::vector<RowTransform> rolled(const LogitsRows& rows) {
  std::vector<RowTransform> all(rows.transforms, rows.transforms + rows.rows);
  if (!all.empty()) std::rotate(all.rbegin(), all.rbegin() + 1, all.rend());
  return all;
}

std::int64_t statistics_of_rolled(const LogitsRows& rows, const RowStatistics& out) {
  const std::vector<RowTransform> transforms = rolled(rows);
  LogitsRows with_rolled = rows;
  with_rolled.transforms = transforms.data();
  return rows_statistics(with_rolled, out);
}

void gradient_of_rolled(const LogitsRows& rows, const RowSoftmax& softmax,
                        const RowGradients& gradients, void* out) {
  const std::vector<RowTransform> transforms = rolled(rows);
  LogitsRows with_rolled = rows;
  with_rolled.transforms = transforms.data();
  rows_gradient(with_rolled, softmax, gradients, out);
}

// --- gradients
// ------------------------------------------------------------------------------------

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

// --- z with roundings, and of logits of -inf
// ------------------------------------------------------

float z_in_bf16(const RowTransform& row, float x) {
  float z = x;
  with_map_of_row(&row, 0, [&](const auto& map) { z = map.z(x); });
  return rounded_to_bf16(z);
}

float tanh_in_bf16(const RowTransform& row, float x) {
  if (row.limit == 0 || std::isinf(x)) return z_in_bf16(row, x);
  return row.limit * rounded_to_bf16(std::tanh(row.factor * x / row.limit));
}

float capped_minus_infinity(const RowTransform& row, float x) {
  return row.limit == 0 ? row.factor * x : row.limit * std::tanh(row.factor * x / row.limit);
}

template <float (*kMap)(const RowTransform&, float)>
std::int64_t statistics_mapped_by(const LogitsRows& rows, const RowStatistics& out) {
  return rows_statistics(mapped_in_float(rows, kMap).rows(), out);
}

template <float (*kMap)(const RowTransform&, float)>
void gradient_mapped_by(const LogitsRows& rows, const RowSoftmax& softmax,
                        const RowGradients& gradients, void* out) {
  gradient_through(rows, mapped_in_float(rows, kMap), softmax, gradients, out,
                   [&](std::int64_t r, double z) { return slope_of(rows, r, z); });
}

template <float (*kMap)(const RowTransform&, float)>
void map_by(Steps& steps) {
  steps.statistics = statistics_on_host<statistics_mapped_by<kMap>>;
  steps.gradient = gradient_on_host<gradient_mapped_by<kMap>>;
}

// --- numbers of the model's logits
// ----------------------------------------------------------------

/// Numbers by row of the last statistics that the rank, a thread, has made.
thread_local std::vector<float> kept;

/// Takes the statistics of the model's logits, and keeps s / T of each row.
std::int64_t keep_factors(const LogitsRows& rows, const RowStatistics& out) {
  kept.clear();
  for (std::int64_t r = 0; r < rows.rows; ++r) kept.push_back(rows.transforms[r].factor);
  LogitsRows given = rows;
  given.transforms = nullptr;
  return rows_statistics(given, out);
}

void logprob_times_factor(Device& device, std::int64_t rows, const WriteRow& write) {
  for_each_item(device, rows, write);
  device.synchronise();
  for (std::int64_t r = 0; r < rows; ++r) {
    if (write.targets[r] >= 0) write.out.logprobs[r] *= kept[static_cast<std::size_t>(r)];
  }
}

void gradient_times_factor(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, void* out) {
  std::vector<float> logprob(gradients.logprob, gradients.logprob + rows.rows);
  for (std::size_t r = 0; r < logprob.size(); ++r) logprob[r] *= rows.transforms[r].factor;
  RowGradients scaled = gradients;
  scaled.logprob = logprob.data();
  LogitsRows given = rows;
  given.transforms = nullptr;
  rows_gradient(given, softmax, scaled, out);
}

struct GivenStatistics {
  std::vector<float> shift;
  std::vector<float> sum;
  std::vector<float> target;
  std::vector<float> weighted;
  std::vector<float> min;
};

/// Returns the statistics of the model's logits.
GivenStatistics statistics_of_given(const LogitsRows& rows) {
  const auto count = static_cast<std::size_t>(rows.rows);
  GivenStatistics of;
  for (std::vector<float>* column : {&of.shift, &of.sum, &of.target, &of.weighted, &of.min}) {
    column->resize(count);
  }
  LogitsRows given = rows;
  given.transforms = nullptr;
  rows_statistics(
      given, {of.shift.data(), of.sum.data(), of.target.data(), of.weighted.data(), of.min.data()});
  return of;
}

/// Keeps the entropy of the model's logits; the shard is the vocabulary.
std::int64_t keep_given_entropy(const LogitsRows& rows, const RowStatistics& out) {
  const GivenStatistics of = statistics_of_given(rows);
  kept.clear();
  for (std::size_t r = 0; r < of.sum.size(); ++r) {
    kept.push_back(std::log(of.sum[r]) - of.weighted[r] / of.sum[r]);
  }
  return rows_statistics(rows, out);
}

void write_kept_entropy(Device& device, std::int64_t rows, const WriteRow& write) {
  for_each_item(device, rows, write);
  device.synchronise();
  if (write.out.entropy == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (write.targets[r] >= 0) write.out.entropy[r] = kept[static_cast<std::size_t>(r)];
  }
}

/// Keeps the log-sum-exp of the model's logits; the shard is the vocabulary.
std::int64_t keep_given_log_sum_exp(const LogitsRows& rows, const RowStatistics& out) {
  const GivenStatistics of = statistics_of_given(rows);
  kept.clear();
  for (std::size_t r = 0; r < of.sum.size(); ++r) {
    kept.push_back(of.shift[r] + std::log(of.sum[r]));
  }
  return rows_statistics(rows, out);
}

void write_kept_log_sum_exp(Device& device, std::int64_t rows, const WriteRow& write) {
  for_each_item(device, rows, write);
  device.synchronise();
  if (write.out.logsumexp == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (write.targets[r] >= 0) write.out.logsumexp[r] = kept[static_cast<std::size_t>(r)];
  }
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
        .name = "multiplied_by_temperature",
        .what = "logits are multiplied by the temperature",
        .strategy = "one_sweep",
        .transform = multiplied_by_temperature,
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
        .catalogue_id = "M98",
        .name = "temperature_of_next_sequence",
        .what = "logits are divided by the temperature of the next sequence",
        .strategy = "fused",
        .batch = of_next_sequence,
        .runs_on = has_sequence_temperatures,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M98",
        .name = "temperature_of_first_sequence",
        .what = "logits of all sequences are divided by the temperature of the first one",
        .strategy = "cp_local",
        .batch = of_first_sequence,
        .runs_on = has_sequence_temperatures,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M98",
        .name = "temperature_of_unsplit_row",
        .what = "row k of a CP rank has the temperature of row k of the whole pack",
        .strategy = "fused",
        .change = [](Steps& s) { s.local_targets = sequences_of_unsplit_rows; },
        .runs_on =
            [](const LossProblem& problem) {
              return has_sequence_temperatures(problem) && problem.grid.cp > 1;
            },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M98",
        .name = "temperature_rolled",
        .what = "temperatures of rows are rolled: the first row of a sequence has that of the one "
                "before",
        .strategy = "one_sweep",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<statistics_of_rolled>;
              s.gradient = gradient_on_host<gradient_of_rolled>;
            },
        .runs_on = has_sequence_temperatures,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M98",
        .name = "linear_temperature_of_next_sequence",
        .what = "logits are divided by the temperature of the next sequence",
        .strategy = "linear_ce",
        .batch = of_next_sequence,
        .runs_on = has_sequence_temperatures,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M99",
        .name = "temperature_in_bf16",
        .what = "the temperature is rounded to bf16, the dtype of the logits",
        .strategy = "cp_local",
        .transform = temperature_in_bf16,
        .runs_on = [](const LossProblem& problem) { return problem.dtype == DType::bf16; },
        .seen_in = "verl 0.9.1",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M99",
        .name = "sequence_temperatures_in_bf16",
        .what = "temperatures by sequence are rounded to bf16, the dtype of the logits",
        .strategy = "fused",
        .batch = each_in_bf16,
        .runs_on =
            [](const LossProblem& problem) {
              return has_sequence_temperatures(problem) && problem.dtype == DType::bf16;
            },
        .seen_in = "verl 0.9.1",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M99",
        .name = "quotient_in_bf16",
        .what = "logits divided by the temperature are rounded to bf16, their dtype",
        .strategy = "fused",
        .change = map_by<z_in_bf16>,
        .runs_on =
            [](const LossProblem& problem) {
              return is_one_sequence_factor(problem) && problem.dtype == DType::bf16;
            },
        .seen_in = "OpenRLHF, SkyRL 0.3.0, verl 0.9.1",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M99",
        .name = "tanh_in_bf16",
        .what = "the tanh of the soft-cap is rounded to bf16, the dtype of the logits",
        .strategy = "cp_local",
        .change = map_by<tanh_in_bf16>,
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
        .change = map_by<capped_minus_infinity>,
        .runs_on = caps,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M101",
        .name = "logprob_over_temperature",
        .what = "the log-probability is divided by the temperature, not the logits",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<keep_factors>;
              s.write_outputs = logprob_times_factor;
              s.gradient = gradient_on_host<gradient_times_factor>;
            },
        .runs_on = is_one_sequence_factor,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M102",
        .name = "entropy_of_given_logits",
        .what = "the entropy is that of the logits before soft-cap and temperature",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<keep_given_entropy>;
              s.write_outputs = write_kept_entropy;
            },
        .runs_on =
            [](const LossProblem& problem) { return maps_rows(problem) && problem.grid.tp == 1; },
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M102",
        .name = "z_loss_of_given_logits",
        .what = "the z-loss is that of the logits before soft-cap and temperature",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<keep_given_log_sum_exp>;
              s.write_outputs = write_kept_log_sum_exp;
            },
        .runs_on =
            [](const LossProblem& problem) {
              return maps_rows(problem) && problem.terms().logsumexp && problem.grid.tp == 1;
            },
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
