// SPDX-License-Identifier: Apache-2.0
// Mutants of label smoothing: means over one vocab shard, over padding or over other ids, wrong
// weights of the label, lost gradients, logarithms of underflowed numbers.
#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/device/kernel/items.h"
#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool smooths(const LossProblem& problem) {
  return problem.terms().has(RowTerm::mean_logprob);
}

bool smooths_shards(const LossProblem& problem) {
  return smooths(problem) && problem.grid.tp > 1;
}

/// Returns the gradients of `rows` rows, each column multiplied by factor(r).
template <typename Factor>
std::vector<float> scaled(const float* column, std::int64_t rows, Factor&& factor) {
  std::vector<float> out(column, column + rows);
  for (std::int64_t r = 0; r < rows; ++r) out[static_cast<std::size_t>(r)] *= factor(r);
  return out;
}

/// Reduces sums, but keeps totals and numbers of finite logits of the own shard, for the mean over
/// its columns. `sums` has totals, numbers, sums and weighted sums of rows.
void mean_of_own_columns(Communicator& tp, std::span<float> sums) {
  const std::span<float> own = sums.first(sums.size() / 2);
  std::vector<float> mean(own.begin(), own.end());
  // The mean divides a sum over all V columns by V / tp.
  for (float& sum : mean) sum *= static_cast<float>(tp.size());
  tp.all_reduce(sums, ReduceOp::sum);
  std::copy(mean.begin(), mean.end(), own.begin());
}

void share_of_shard_width(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  LogitsRows narrow = rows;
  narrow.vocab = rows.shard.width;
  rows_gradient(narrow, softmax, gradients, out);
}

/// Returns the vocabulary as Megatron-LM pads it.
std::int64_t padded_vocab(std::int64_t vocab) {
  constexpr std::int64_t kMultiple = 128;
  return (vocab + kMultiple - 1) / kMultiple * kMultiple;
}

void mean_over_padded(Device& device, std::int64_t rows, const WriteRow& write) {
  WriteRow padded = write;
  padded.vocab = static_cast<float>(padded_vocab(static_cast<std::int64_t>(write.vocab)));
  for_each_item(device, rows, padded);
}

void gradient_over_padded(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  LogitsRows padded = rows;
  padded.vocab = padded_vocab(rows.vocab);
  rows_gradient(padded, softmax, gradients, out);
}

void mean_over_finite(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[RowTerm::mean_logprob] == nullptr) return;
    write.out.terms[RowTerm::mean_logprob][r] *=
        write.vocab / write.columns.at(StatisticsColumns::kFinite, r);
  });
}

void gradient_over_finite(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  const std::vector<float> mean =
      scaled(gradients.terms[RowTerm::mean_logprob], rows.rows,
             [&](std::int64_t r) { return static_cast<float>(rows.vocab) / softmax.finite[r]; });
  RowGradients over_finite = gradients;
  over_finite.terms[RowTerm::mean_logprob] = mean.data();
  rows_gradient(rows, softmax, over_finite, out);
}

/// Takes the mean over the V - 1 ids other than the label: (V M - ln p_y) / (V - 1).
void mean_over_others(Device& device, std::int64_t rows, const WriteRow& write) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[RowTerm::mean_logprob] == nullptr) return;
    float& mean = write.out.terms[RowTerm::mean_logprob][r];
    mean = (write.vocab * mean - write.out.logprobs[r]) / (write.vocab - 1);
  });
}

void gradient_over_others(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  const auto others = static_cast<float>(rows.vocab - 1);
  std::vector<float> logprob(gradients.logprob, gradients.logprob + rows.rows);
  for (std::size_t r = 0; r < logprob.size(); ++r)
    logprob[r] -= gradients.terms[RowTerm::mean_logprob][r] / others;
  const std::vector<float> mean =
      scaled(gradients.terms[RowTerm::mean_logprob], rows.rows,
             [&](std::int64_t) { return static_cast<float>(rows.vocab) / others; });
  RowGradients over_others = gradients;
  over_others.logprob = logprob.data();
  over_others.terms[RowTerm::mean_logprob] = mean.data();
  rows_gradient(rows, softmax, over_others, out);
}

/// Adds the smoothing term to the whole loss of the label, in place of its share 1 - e.
void label_keeps_its_weight(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] == 0) continue;
    // With the weight w of a token the gradients are -(1 - e) w and -e w.
    const double of_smoothing = grad.terms[RowTerm::mean_logprob][t];
    totals.sums[0] += of_smoothing * tokens.logprobs[t];
    grad.logprob[t] += grad.terms[RowTerm::mean_logprob][t];
  }
}

void smoothing_detached(const LogitsRows& rows, const RowSoftmax& softmax,
                        const RowGradients& gradients, void* out) {
  RowGradients detached = gradients;
  detached.terms[RowTerm::mean_logprob] = nullptr;
  rows_gradient(rows, softmax, detached, out);
}

/// Gives ids without a probability their share of the uniform distribution.
void share_of_masked_ids(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out) {
  gradient_by(rows, softmax, gradients, out, [&](std::int64_t r) {
    const RowCoefficients row = row_coefficients(softmax, gradients, rows.vocab, r);
    return [row, log_sum = std::log(softmax.sum[r])](const PlainColumn& column) {
      const float share = std::isinf(column.z) ? row.d : 0;
      return dz_of(row, column, column.distance - log_sum) + share;
    };
  });
}

/// Adds up ln exp(z - m), where exponentials may have underflowed.
std::int64_t logarithms_of_exponentials(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.total == nullptr) return owned;
  const MappedRows z = transformed_rows(rows);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (rows.targets[r] < 0) continue;
    out.total[r] = 0;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      if (std::isinf(z.at(r, v))) continue;
      out.total[r] += std::log(std::exp(static_cast<float>(z.at(r, v)) - out.shift[r]));
    }
  }
  return owned;
}

const RegisteredMutant smoothing_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M81",
        .name = "smoothing_of_shard",
        .what = "label smoothing with the mean over the columns of the own vocab shard",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.reduce_sum = mean_of_own_columns; },
        .runs_on =
            [](const LossProblem& problem) {
              return smooths_shards(problem) && problem.row_statistics();
            },
        .seen_in = "Megatron-LM #737, #7452; Liger-Kernel 0.8.5, mode partition",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M81",
        .name = "smoothing_gradient_of_shard_width",
        .what = "the gradient of label smoothing divides by the columns of the own vocab shard",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<share_of_shard_width>; },
        .runs_on = smooths_shards,
        .seen_in = "Megatron-LM #737, #7452",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M82",
        .name = "smoothing_label_keeps_weight",
        .what = "label smoothing is added to the loss of the label, which keeps its weight of 1",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = label_keeps_its_weight; },
        .runs_on = smooths,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M83",
        .name = "smoothing_over_other_ids",
        .what = "the uniform distribution is over the V - 1 ids beside the label",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.write_outputs = mean_over_others;
              s.gradient = gradient_on_host<gradient_over_others>;
            },
        .runs_on = smooths,
        .seen_in = "Megatron-LM, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M84",
        .name = "smoothing_over_padded_vocab",
        .what = "the uniform distribution is over the vocabulary with its padding",
        .strategy = "cp_local",
        .change =
            [](Steps& s) {
              s.write_outputs = mean_over_padded;
              s.gradient = gradient_on_host<gradient_over_padded>;
            },
        .runs_on = smooths,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M84",
        .name = "smoothing_over_finite_logits",
        .what = "the uniform distribution is over the ids whose logit is not -inf",
        .strategy = "fused",
        .change =
            [](Steps& s) {
              s.write_outputs = mean_over_finite;
              s.gradient = gradient_on_host<gradient_over_finite>;
            },
        .runs_on = smooths,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M85",
        .name = "smoothing_detached",
        .what = "label smoothing has no gradient",
        .strategy = "cp_gather_logits",
        .change = [](Steps& s) { s.gradient = gradient_on_host<smoothing_detached>; },
        .runs_on = smooths,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M86",
        .name = "smoothing_of_masked_ids",
        .what = "ids with a logit of -inf get the gradient of label smoothing",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<share_of_masked_ids>; },
        .runs_on = smooths,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M87",
        .name = "smoothing_of_underflow",
        .what = "ln p for label smoothing from exponentials, some of which have underflowed",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<logarithms_of_exponentials>; },
        .runs_on = smooths,
        .seen_in = "megatron-core 0.16.1; Liger-Kernel 0.8.5, vocab-parallel",
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
