// SPDX-License-Identifier: Apache-2.0
// Mutants of the entropy bonus: its sign and coefficient, gradients that are lost, that are about
// one vocab shard, that cancel or become NaN, and means over other tokens than those of the policy.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

bool has_bonus(const LossProblem& problem) {
  return problem.terms().has(RowTerm::entropy);
}

bool options_have_bonus(const ClippedPgOptions& options) {
  return options.entropy_coefficient != 0;
}

struct RaisesLoss : ClippedPgFormulas {
  template <typename Real>
  static Real entropy_slope(Real coefficient) {
    return coefficient;
  }
};

struct EntropyDetached : ClippedPgFormulas {
  template <typename Real>
  static Real entropy_slope(Real) {
    return 0;
  }
};

struct CoefficientTwice : ClippedPgFormulas {
  template <typename Real>
  static Real entropy_slope(Real coefficient) {
    return -coefficient * coefficient;
  }
};

std::unique_ptr<Objective> entropy_added(const ObjectiveSpec& spec) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!options_have_bonus(options)) return nullptr;
  options.entropy_coefficient *= -1;
  return std::make_unique<ClippedPgObjective<>>(options);
}

/// Sums p z of the own shard as the framework's formula has it, with 0 (-inf) for a masked id.
std::int64_t probability_times_infinity(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.weighted == nullptr) return owned;
  const MappedRows z = transformed_rows(rows);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (rows.targets[r] < 0) continue;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      if (std::isinf(z.at(r, v))) out.weighted[r] += 0.0f * static_cast<float>(z.at(r, v));
    }
  }
  return owned;
}

/// Returns the coefficients of dz without the part of the entropy.
RowCoefficients without_entropy(const LogitsRows& rows, const RowSoftmax& softmax,
                                RowGradients gradients, std::int64_t r) {
  gradients.terms[RowTerm::entropy] = nullptr;
  return row_coefficients(softmax, gradients, rows.vocab, r);
}

/// Computes p (ln p + H), with 0 (-inf) for a masked id.
void zero_times_log_of_zero(const LogitsRows& rows, const RowSoftmax& softmax,
                            const RowGradients& gradients, void* out) {
  gradient_by(rows, softmax, gradients, out, [&](std::int64_t r) {
    const RowCoefficients row = row_coefficients(softmax, gradients, rows.vocab, r);
    return [row, log_sum = std::log(softmax.sum[r])](const PlainColumn& column) {
      const float log_p = column.distance - log_sum;
      const float of_masked = column.p == 0 ? column.p * (row.c * log_p) : 0;
      return dz_of(row, column, log_p) + of_masked;
    };
  });
}

/// Computes p (sum p z - z) of the logits themselves.
void gradient_of_raw_logits(const LogitsRows& rows, const RowSoftmax& softmax,
                            const RowGradients& gradients, void* out) {
  gradient_by(rows, softmax, gradients, out, [&](std::int64_t r) {
    const RowCoefficients row = without_entropy(rows, softmax, gradients, r);
    const float mean = softmax.shift[r] + softmax.weighted[r] / softmax.sum[r];
    return [row, mean, h = gradients.terms[RowTerm::entropy][r],
            log_sum = std::log(softmax.sum[r])](const PlainColumn& column) {
      const float of_bonus =
          column.p == 0 ? 0 : h * column.p * (mean - static_cast<float>(column.z));
      return dz_of(row, column, column.distance - log_sum) + of_bonus;
    };
  });
}

/// Computes ln p as z less a log-sum-exp that was returned in bf16.
void log_sum_exp_in_bf16(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out) {
  gradient_by(rows, softmax, gradients, out, [&](std::int64_t r) {
    const RowCoefficients row = row_coefficients(softmax, gradients, rows.vocab, r);
    const float log_sum = std::log(softmax.sum[r]);
    const auto rounded = static_cast<float>(bf16(softmax.shift[r] + log_sum));
    return [row, log_sum = rounded - softmax.shift[r]](const PlainColumn& column) {
      return dz_of(row, column, column.distance - log_sum);
    };
  });
}

/// Computes H as a log-sum-exp that was returned in bf16 less sum p z.
void entropy_from_bf16(Device& device, std::int64_t rows, const WriteRow& write) {
  using Columns = StatisticsColumns;
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[RowTerm::entropy] == nullptr) return;
    const float log_sum_exp =
        write.columns.at(Columns::kShift, r) + std::log(write.columns.at(Columns::kSum, r));
    write.out.terms[RowTerm::entropy][r] += static_cast<float>(bf16(log_sum_exp)) - log_sum_exp;
  });
}

/// Takes the entropy of the own shard, whose probabilities add up to 1, beside the probabilities of
/// the vocabulary.
void entropy_of_own_shard(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  const auto count = static_cast<std::size_t>(rows.rows);
  std::vector<float> shift(count);
  std::vector<float> sum(count);
  std::vector<float> target(count);
  std::vector<float> weighted(count);
  std::vector<float> min(count);
  rows_statistics(rows, {shift.data(), sum.data(), target.data(), weighted.data(), min.data()});
  // H = ln s - w / s by the statistics of the vocabulary has to become the one of the shard.
  for (std::size_t r = 0; r < count; ++r) {
    const float entropy = sum[r] > 0 ? std::log(sum[r]) - weighted[r] / sum[r] : 0;
    weighted[r] = softmax.sum[r] * (std::log(softmax.sum[r]) - entropy);
  }
  RowSoftmax own = softmax;
  own.weighted = weighted.data();
  rows_gradient(rows, own, gradients, out);
}

/// Multiplies the tokens' shares in the mean of the entropies, in loss and gradient, by
/// factor(tokens of the sequence that count).
template <typename Factor>
void with_entropy_shares(const ObjectiveTokens& tokens, const PackedBatch& batch,
                         ObjectiveTotals<double> totals, const TokenGradients& grad,
                         Factor&& factor) {
  if (grad.terms[RowTerm::entropy].empty()) return;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(batch.sequences()), 0);
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] != 0) ++counts[static_cast<std::size_t>(tokens.sequence[t])];
  }
  // The mean is known up to the coefficient, which the gradients have.
  double right = 0;
  double wrong = 0;
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] == 0) continue;
    const double share = grad.terms[RowTerm::entropy][t] *
                         factor(counts[static_cast<std::size_t>(tokens.sequence[t])]);
    right +=
        grad.terms[RowTerm::entropy][t] * static_cast<double>(tokens.terms[RowTerm::entropy][t]);
    wrong += share * tokens.terms[RowTerm::entropy][t];
    grad.terms[RowTerm::entropy][t] = static_cast<float>(share);
  }
  if (right != 0) totals.sums[ClippedPgTotals::kEntropy] *= wrong / right;
}

void mean_over_tokens(const Objective& objective, const ObjectiveTokens& tokens,
                      const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                      ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const Denominators& counts = batch.denominators;
  with_entropy_shares(tokens, batch, totals, grad, [&](std::int64_t of_sequence) {
    return static_cast<double>(of_sequence * counts.valid_sequences) /
           static_cast<double>(counts.valid_tokens);
  });
}

void mean_over_sequences(const Objective& objective, const ObjectiveTokens& tokens,
                         const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                         ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const Denominators& counts = batch.denominators;
  with_entropy_shares(tokens, batch, totals, grad, [&](std::int64_t of_sequence) {
    return static_cast<double>(counts.valid_tokens) /
           static_cast<double>(of_sequence * counts.valid_sequences);
  });
}

void entropy_mean_of_microbatches(const Objective& objective, const ObjectiveTokens& tokens,
                                  const PackedBatch& batch, int,
                                  SequenceTable<const double> coefficients,
                                  ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const std::int64_t own = std::count(tokens.valid.begin(), tokens.valid.end(), 1);
  const double parts = batch.microbatch.count * batch.microbatch.dp;
  with_entropy_shares(tokens, batch, totals, grad, [&](std::int64_t) {
    return static_cast<double>(batch.denominators.valid_tokens) /
           (static_cast<double>(own) * parts);
  });
}

void entropy_of_masked_rows(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const auto counts = [](float g) { return g != 0; };
  const auto first = std::find_if(grad.terms[RowTerm::entropy].begin(),
                                  grad.terms[RowTerm::entropy].end(), counts);
  if (first == grad.terms[RowTerm::entropy].end()) return;
  const float own = *first;
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] == 0 && tokens.real[t] != 0) grad.terms[RowTerm::entropy][t] = own;
  }
}

bool is_mean_over_sequences(const LossProblem& problem) {
  return has_bonus(problem) && problem.objective_spec.options.contains("token_level_loss");
}

bool is_mean_over_tokens(const LossProblem& problem) {
  return has_bonus(problem) && !problem.objective_spec.options.contains("token_level_loss");
}

const RegisteredMutant entropy_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M71",
        .name = "entropy_added",
        .what = "the coefficient times the entropy is added to the loss",
        .strategy = "fused",
        .objective = entropy_added,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M71",
        .name = "entropy_gradient_sign",
        .what = "the gradient of the entropy bonus has the other sign",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<RaisesLoss>(spec, options_have_bonus);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M72",
        .name = "entropy_detached",
        .what = "the entropy bonus has no gradient: the entropy is that of the metrics",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<EntropyDetached>(spec, options_have_bonus);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M73",
        .name = "entropy_coefficient_twice",
        .what = "the gradient of the entropy bonus has its coefficient twice",
        .strategy = "one_sweep",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<CoefficientTwice>(spec, options_have_bonus);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M74",
        .name = "entropy_gradient_of_shard",
        .what = "the gradient of the entropy has the entropy of the own vocab shard",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<entropy_of_own_shard>; },
        .runs_on =
            [](const LossProblem& problem) { return has_bonus(problem) && problem.grid.tp > 1; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M75",
        .name = "entropy_of_masked_vocab",
        .what = "0 (-inf) in sum p z",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.statistics = statistics_on_host<probability_times_infinity>; },
        .seen_in = "AReaL 1.0.4, NeMo-RL, SkyRL 0.3.0, TRL, verl 0.9.1",
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M75",
        .name = "entropy_gradient_of_masked_vocab",
        .what = "0 (-inf) in the gradient p (ln p + H) of the entropy",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<zero_times_log_of_zero>; },
        .runs_on = has_bonus,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M76",
        .name = "entropy_gradient_of_raw_logits",
        .what = "the gradient p (sum p z - z) of the entropy from the logits themselves, which "
                "cancel with an offset",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_of_raw_logits>; },
        .runs_on = has_bonus,
        .seen_in = "AReaL 1.0.4, SkyRL 0.3.0, verl 0.9.1",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M77",
        .name = "entropy_from_bf16_log_sum_exp",
        .what = "ln s of the entropy rounded to bf16",
        .strategy = "fused",
        .change = [](Steps& s) { s.write_outputs = entropy_from_bf16; },
        .seen_in = "verl 0.9.1 under autocast",
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M77",
        .name = "entropy_gradient_from_bf16_log_sum_exp",
        .what = "ln p in the gradient of the entropy from a log-sum-exp in bf16",
        .strategy = "cp_gather_logits",
        .change = [](Steps& s) { s.gradient = gradient_on_host<log_sum_exp_in_bf16>; },
        .runs_on = has_bonus,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M78",
        .name = "entropy_over_tokens",
        .what = "the entropy bonus is a mean over tokens, the policy loss one over sequences",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = mean_over_tokens; },
        .runs_on = is_mean_over_sequences,
        .seen_in = "OpenRLHF, entropy bonus beside GSPO",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M78",
        .name = "entropy_over_sequences",
        .what = "the entropy bonus is a mean over sequences, the policy loss one over tokens",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = mean_over_sequences; },
        .runs_on = is_mean_over_tokens,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M79",
        .name = "entropy_mean_of_microbatch_means",
        .what = "the entropy bonus is the average of the microbatches' means",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = entropy_mean_of_microbatches; },
        .runs_on = is_mean_over_tokens,
        .seen_in = "SkyRL 0.3.0",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M80",
        .name = "entropy_on_masked_rows",
        .what = "rows that are not trained on get the gradient of the entropy bonus",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = entropy_of_masked_rows; },
        .runs_on = has_bonus,
        .rejected_by = "masked_rows_zero",
    }),
};

}  // namespace
}  // namespace lossgrid
