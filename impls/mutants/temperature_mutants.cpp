// SPDX-License-Identifier: Apache-2.0
// Mutants of temperatures: multiplied in the place of divided, of another sequence, rounded to
// bf16, or of the log-probability in the place of the logits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool has_sequence_temperatures(const LossProblem& problem) {
  return problem.transform.by_sequence;
}

/// True if rows are multiplied by one factor each, s / T.
bool has_row_factors(const LossProblem& problem) {
  const LogitTransform transform = problem.row_transform();
  return !transform.is_identity() && transform.softcap == 0;
}

float nearest_bf16(float x) {
  return static_cast<float>(bf16(x));
}

void multiplied_by_temperature(LogitTransform& transform) {
  transform.temperature = 1 / transform.temperature;
}

void temperature_in_bf16(LogitTransform& transform) {
  transform.temperature = nearest_bf16(static_cast<float>(transform.temperature));
}

void of_next_sequence(PackedBatch& batch) {
  std::vector<float>& all = batch.temperatures;
  if (!all.empty()) std::rotate(all.begin(), all.begin() + 1, all.end());
}

void of_first_sequence(PackedBatch& batch) {
  std::vector<float>& all = batch.temperatures;
  if (!all.empty()) std::fill(all.begin(), all.end(), all.front());
}

void each_in_bf16(PackedBatch& batch) {
  for (float& temperature : batch.temperatures) temperature = nearest_bf16(temperature);
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

/// s / T by row, of the last statistics that the rank, a thread, has made.
thread_local std::vector<float> kept_factors;

/// Keeps them, and takes the statistics of the model's logits.
std::int64_t keep_factors(const LogitsRows& rows, const RowStatistics& out) {
  kept_factors.clear();
  for (std::int64_t r = 0; r < rows.rows; ++r) kept_factors.push_back(rows.transforms[r].factor);
  LogitsRows given = rows;
  given.transforms = nullptr;
  return rows_statistics(given, out);
}

void logprob_times_factor(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    write.out.logprobs[r] *= kept_factors[static_cast<std::size_t>(r)];
  });
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

float quotient_in_bf16(const RowTransform& row, float x) {
  return nearest_bf16(ScaledLogit{row.factor}.z(x));
}

const RegisteredMutant temperature_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M97",
        .name = "multiplied_by_temperature",
        .what = "logits are multiplied by the temperature",
        .strategy = "one_sweep",
        .transform = multiplied_by_temperature,
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
        .change = map_rows_by<quotient_in_bf16>,
        .runs_on =
            [](const LossProblem& problem) {
              return has_row_factors(problem) && problem.dtype == DType::bf16;
            },
        .seen_in = "OpenRLHF, SkyRL 0.3.0, verl 0.9.1",
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
        .runs_on = has_row_factors,
        .rejected_by = "logprobs",
    }),
};

}  // namespace
}  // namespace lossgrid
