// SPDX-License-Identifier: Apache-2.0
// Mutants of the z-loss: a log-sum-exp of one vocab shard, or of the model's logits, or the largest
// logit in its place; gradients that are lost or halved; rows that do not count.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool has_z_loss(const LossProblem& problem) {
  return problem.terms().has(RowTerm::logsumexp);
}

/// Log-sum-exp by row, from the last statistics of the rank, which is a thread.
thread_local std::vector<float> kept_log_sum_exp;

/// Keeps the log-sum-exp of the own shard.
std::int64_t keep_own_log_sum_exp(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  kept_log_sum_exp.clear();
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    kept_log_sum_exp.push_back(out.shift[r] + std::log(out.sum[r]));
  }
  return owned;
}

/// Keeps the log-sum-exp of the model's logits, in a shard that is the vocabulary.
std::int64_t keep_given_log_sum_exp(const LogitsRows& rows, const RowStatistics& out) {
  LogitsRows given = rows;
  given.transforms = nullptr;
  keep_own_log_sum_exp(given, out);
  return rows_statistics(rows, out);
}

void write_kept_log_sum_exp(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[RowTerm::logsumexp] == nullptr) return;
    write.out.terms[RowTerm::logsumexp][r] = kept_log_sum_exp[static_cast<std::size_t>(r)];
  });
}

void maximum_for_log_sum_exp(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[RowTerm::logsumexp] == nullptr) return;
    write.out.terms[RowTerm::logsumexp][r] = write.columns.at(StatisticsColumns::kShift, r);
  });
}

void derivative_without_2(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  std::vector<float> half(gradients.terms[RowTerm::logsumexp],
                          gradients.terms[RowTerm::logsumexp] + rows.rows);
  for (float& g : half) g /= 2;
  RowGradients halved = gradients;
  halved.terms[RowTerm::logsumexp] = half.data();
  rows_gradient(rows, softmax, halved, out);
}

void z_loss_detached(const LogitsRows& rows, const RowSoftmax& softmax,
                     const RowGradients& gradients, void* out) {
  RowGradients detached = gradients;
  detached.terms[RowTerm::logsumexp] = nullptr;
  rows_gradient(rows, softmax, detached, out);
}

/// Gives rows without a trained token the gradient of the first row with one.
void z_loss_of_masked_rows(const Objective& objective, const ObjectiveTokens& tokens,
                           const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                           ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto first = std::find(tokens.valid.begin(), tokens.valid.end(), 1);
  if (first == tokens.valid.end()) return;
  const float own =
      grad.terms[RowTerm::logsumexp][static_cast<std::size_t>(first - tokens.valid.begin())];
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] == 0 && tokens.real[t] != 0) grad.terms[RowTerm::logsumexp][t] = own;
  }
}

/// Divides the z-loss by all tokens of the pack and its parts, instead of the trained tokens.
void mean_over_all_rows(const Objective& objective, const ObjectiveTokens& tokens,
                        const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                        ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto count_nonzero = [](std::span<const std::uint8_t> column) {
    return static_cast<double>(std::count(column.begin(), column.end(), 1));
  };
  const double real = count_nonzero(tokens.real);
  if (real == 0) return;
  const double factor = count_nonzero(tokens.valid) / real;
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] == 0) continue;
    // The z-loss is half of the gradient 2 c L times L.
    totals.sums[0] +=
        (factor - 1) * grad.terms[RowTerm::logsumexp][t] * tokens.terms[RowTerm::logsumexp][t] / 2;
    grad.terms[RowTerm::logsumexp][t] =
        static_cast<float>(factor * grad.terms[RowTerm::logsumexp][t]);
  }
}

const RegisteredMutant z_loss_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M88",
        .name = "z_loss_of_shard",
        .what = "the z-loss of the own vocab shard's log-sum-exp",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<keep_own_log_sum_exp>;
              s.write_outputs = write_kept_log_sum_exp;
            },
        .runs_on =
            [](const LossProblem& problem) { return has_z_loss(problem) && problem.grid.tp > 1; },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M89",
        .name = "z_loss_of_maximum",
        .what = "the z-loss of the largest logit",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.write_outputs = maximum_for_log_sum_exp; },
        .runs_on = has_z_loss,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M90",
        .name = "z_loss_gradient_without_2",
        .what = "the derivative of the square in the z-loss lacks its factor of 2",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<derivative_without_2>; },
        .runs_on = has_z_loss,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M91",
        .name = "z_loss_detached",
        .what = "the z-loss has no gradient",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.gradient = gradient_on_host<z_loss_detached>; },
        .runs_on = has_z_loss,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M92",
        .name = "z_loss_on_masked_rows",
        .what = "rows that are not trained on get the gradient of the z-loss",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = z_loss_of_masked_rows; },
        .runs_on = has_z_loss,
        .rejected_by = "masked_rows_zero",
    }),
    RegisteredMutant({
        .catalogue_id = "M92",
        .name = "z_loss_over_all_rows",
        .what = "the z-loss is divided by the rows of the pack, masked ones too",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = mean_over_all_rows; },
        .runs_on = has_z_loss,
        .rejected_by = "loss",
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
              return has_z_loss(problem) && problem.grid.tp == 1 &&
                     !problem.row_transform().is_identity();
            },
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
