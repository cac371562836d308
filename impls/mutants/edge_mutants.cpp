// SPDX-License-Identifier: Apache-2.0
// Mutants that are wrong at the ends of a range alone: at a clip bound or a tie, for a reward of 0,
// for ratios and margins that are far out, in packs of one sequence or of many, in the tail of a
// row that is written past the caches.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"
#include "impls/objectives/pairs/dpo.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {
namespace {

/// `ClipMaskInBf16`: decides in bf16 where the ratio was clipped.
struct ClipMaskInBf16 : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> clipped(Real rho, const ClippedPgOptions& options) {
    const auto rounded = static_cast<Real>(static_cast<float>(bf16(static_cast<float>(rho))));
    return {ClippedPgFormulas::clipped(rho, options).value,
            ClippedPgFormulas::clipped(rounded, options).slope};
  }
};

/// `BoundExcluded`: counts a weight at a bound as one beyond it.
struct BoundExcluded : ClippedPgFormulas {
  template <typename Real>
  static bool out_of_bounds(Real weight, const ClippedPgOptions& options) {
    return ClippedPgFormulas::out_of_bounds(weight, options) ||
           weight == static_cast<Real>(*options.truncated_importance_sampling_ratio);
  }
  template <typename Real>
  static Real truncated(Real weight, const ClippedPgOptions& options) {
    const bool drops = options.truncated_importance_sampling_type == Truncation::icepop;
    return drops && out_of_bounds(weight, options) ? Real(0)
                                                   : ClippedPgFormulas::truncated(weight, options);
  }
};

/// `RatioClampedBelow`: bounds the exponent from below alone, where a ratio vanishes.
struct RatioClampedBelow : ClippedPgFormulas {
  template <typename Real>
  static Real ratio(Real log_ratio) {
    return std::exp(std::max(log_ratio, Real(-20)));
  }
};

/// `SequenceRatioClamped`: bounds the logarithm of a sequence's ratio from above.
struct SequenceRatioClamped : ClippedPgFormulas {
  template <typename Real>
  static Real ratio(Real log_ratio) {
    return std::exp(std::min(log_ratio, Real(10)));
  }
};

/// `NaiveLogSigmoid`: log(1 + exp(-x)) in float32, infinite below -88.
struct NaiveLogSigmoid : DpoFormulas {
  static PairLoss pair_loss(const DpoOptions& options, double a, double b) {
    PairLoss loss = DpoFormulas::pair_loss(options, a, b);
    loss.value = std::log(1 + std::exp(-static_cast<float>(options.beta() * (a - b))));
    return loss;
  }
};

void reward_of_zero_counts(PackedBatch& batch) {
  for (float& reward : batch.rewards) reward = reward == 0 ? 1.0f : reward;
}

bool is_whole_batch(const PackedBatch& batch) {
  return batch.microbatch.count == 1 && batch.microbatch.dp == 1;
}

/// Counts a mask of [1, T] as if all of it were trained on.
void one_sequence_unmasked(PackedBatch& batch) {
  if (batch.sequences() != 1 || !is_whole_batch(batch)) return;
  batch.denominators.valid_tokens = std::max<std::int64_t>(batch.length(0) - 1, 0);
}

/// Takes the stated number of sequences only if a number of tokens is stated too.
void sequences_stated_alone(PackedBatch& batch) {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.sample_mask[i] == 0) continue;
    ++sequences;
    for (std::int64_t t = 1; t < batch.length(i); ++t) {
      tokens += batch.token_mask[batch.cu_seqlens[i] + t];
    }
  }
  const bool are_tokens_stated = tokens != batch.denominators.valid_tokens;
  if (is_whole_batch(batch) && !are_tokens_stated) batch.denominators.valid_sequences = sequences;
}

/// Has a table of eight sequences: later ones share its last place.
void eight_sequences(const Objective& objective, const ObjectiveTokens& tokens,
                     const PackedBatch& batch, int /*cp*/, SequenceTable<const double> coefficients,
                     ObjectiveTotals<double> totals, const TokenGradients& grad) {
  constexpr std::int64_t kPlaces = 8;
  std::vector<double> table;
  for (std::int64_t i = 0; i < coefficients.sequences; ++i) {
    for (int k = 0; k < coefficients.columns; ++k) {
      table.push_back(coefficients.at(std::min(i, kPlaces - 1), k));
    }
  }
  const SequenceTable<const double> shared(table.data(), coefficients.sequences,
                                           coefficients.columns, coefficients.columns);
  objective.token_terms(tokens, batch, shared, totals, grad);
}

/// True if the ratio of token t is at a clip bound, as near as float32 comes.
bool is_at_clip_bound(const ObjectiveTokens& tokens, std::size_t t, const Edges& edges) {
  constexpr float kNear = 1e-5f;
  constexpr int kClipBounds = 2;  // the first edges, if there are ratios of tokens to clip
  const float log_ratio = tokens.logprobs[t] - tokens.input(TokenInput::prev_logprobs)[t];
  return std::any_of(edges.at.begin(), edges.at.begin() + std::min(edges.count, kClipBounds),
                     [&](double edge) { return std::abs(log_ratio - edge) < kNear; });
}

/// Takes advantages of 0 at a clip bound as 1 in the gradient, to divide by them.
void zero_at_clip_bound(const Objective& objective, const ObjectiveTokens& tokens,
                        const PackedBatch& batch, int /*cp*/,
                        SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                        const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  const PolicyEdges edges = policy_edges(objective);
  if (edges.log_ratios.count == 0 || edges.sequences_per_edge > 0) return;
  const std::span<const float> right = tokens.input(TokenInput::advantages);
  std::vector<float> advantages(right.begin(), right.end());
  for (std::size_t t = 0; t < advantages.size(); ++t) {
    const bool is_changed =
        tokens.valid[t] != 0 && advantages[t] == 0 && is_at_clip_bound(tokens, t, edges.log_ratios);
    if (is_changed) advantages[t] = 1;
  }
  ObjectiveTokens changed = tokens;
  changed.inputs[static_cast<std::size_t>(TokenInput::advantages)] = advantages;
  for (const std::span<float> column : grad.columns()) {
    std::fill(column.begin(), column.end(), 0.0f);
  }
  std::vector<double> sums(totals.sums.size());
  std::vector<double> maxima(totals.maxima.size());
  objective.token_terms(changed, batch, coefficients, {sums, maxima}, grad);
}

/// Counts a pair with equal rewards as one whose chosen sequence is preferred.
ObjectiveResult ties_are_correct(const Objective& objective, const PackedBatch& batch, int /*cp*/,
                                 SequenceTable<const double> sums,
                                 SequenceTable<const double> coefficients,
                                 ObjectiveTotals<const double> totals) {
  ObjectiveResult result = objective.finish(batch, sums, coefficients, totals);
  const auto pairs = static_cast<double>(batch.denominators.valid_sequences) / 2;
  if (objective.kind() != "dpo" || pairs == 0) return result;
  for (std::int64_t i = 0; i + 1 < batch.sequences(); i += 2) {
    const bool is_tie = batch.sample_mask[i] != 0 && sums.at(i, 0) == sums.at(i + 1, 0);
    if (is_tie) result.metrics["accuracy"].amount += 1 / pairs;
  }
  return result;
}

/// Loses, where a gradient is written past the caches, the columns before the first whole line.
void streamed_head_lost(const LogitsRows& rows, const RowSoftmax& softmax,
                        const RowGradients& gradients, void* out) {
  rows_gradient(rows, softmax, gradients, out);
  if (!rows.streams(out)) return;
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      T* row = static_cast<T*>(out) + r * rows.shard.width;
      const auto over = reinterpret_cast<std::uintptr_t>(row) % 64;
      const auto head = static_cast<std::int64_t>((64 - over) % 64 / sizeof(T));
      std::fill_n(row, std::min(head, rows.shard.valid()), T(0));
    }
  });
}

/// Loses, where a gradient is written past the caches, the columns after the last whole 64.
std::int64_t streamed_tail_lost(const LogitsRows& rows, const float* grad, std::span<float> scratch,
                                const RowStatistics& out, void* gradient) {
  const std::int64_t owned = rows_forward_backward(rows, grad, scratch, out, gradient);
  const std::int64_t bytes = rows.shard.width * static_cast<std::int64_t>(size_of(rows.dtype));
  if (!rows.streams(gradient) || bytes % 64 != 0) return owned;
  dispatch_floating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t whole = rows.shard.valid() / 64 * 64;
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      T* row = static_cast<T*>(gradient) + r * rows.shard.width;
      std::fill(row + whole, row + rows.shard.valid(), T(0));
    }
  });
  return owned;
}

const RegisteredMutant edge_mutants[] = {
    RegisteredMutant({
        .name = "clip_mask_in_bf16",
        .what = "which ratios were clipped is decided in bf16",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<ClipMaskInBf16>(
                  spec, [](const ClippedPgOptions& o) { return o.clips(); });
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "zero_at_clip_bound",
        .what = "in the gradient an advantage of 0 counts as 1 where the ratio is at a clip bound",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = zero_at_clip_bound; },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "weight_at_bound_dropped",
        .what = "an importance weight at its bound counts as one beyond it",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<BoundExcluded>(
                  spec, [](const ClippedPgOptions& o) { return o.truncates(); });
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "reward_of_zero_counts",
        .what = "a reward of 0 makes a positive example",
        .strategy = "cp_local",
        .batch = reward_of_zero_counts,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "pair_ties_are_correct",
        .what = "a pair with equal rewards counts as accurate",
        .strategy = "fused",
        .change = [](Steps& s) { s.finish = ties_are_correct; },
        .rejected_by = "metric.accuracy",
    }),
    RegisteredMutant({
        .name = "ratio_clamped_below",
        .what = "the logarithm of a ratio is clamped at -20",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<RatioClampedBelow>(
                  spec, [](const ClippedPgOptions& o) { return o.clips(); });
            },
        .rejected_by = "metric.probs_ratio_min",
    }),
    RegisteredMutant({
        .name = "sequence_ratio_clamped",
        .what = "the logarithm of a sequence's ratio is clamped at 10",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<SequenceRatioClamped>(
                  spec, [](const ClippedPgOptions& o) { return o.sequence_ratio(); });
            },
        .seen_in = "verl, GSPO, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "log_sigmoid_overflows",
        .what = "log(1 + exp(-x)) of a pair in float32",
        .strategy = "fused",
        .objective = [](const ObjectiveSpec& spec) -> std::unique_ptr<Objective> {
          if (spec.kind != "dpo") return nullptr;
          const DpoOptions options = read_dpo_options(spec.options);
          const bool is_plain =
              options.loss_type == DpoLossType::sigmoid && options.label_smoothing == 0;
          if (!is_plain) return nullptr;
          return std::make_unique<DpoObjective<NaiveLogSigmoid>>(options);
        },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "one_sequence_unmasked",
        .what = "the mask of a pack of one sequence is not counted",
        .strategy = "fused",
        .batch = one_sequence_unmasked,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "sequences_stated_alone",
        .what = "global_valid_seqs is read only together with global_valid_toks",
        .strategy = "cp_local",
        .batch = sequences_stated_alone,
        .rejected_by = "metric.global_valid_seqs",
    }),
    RegisteredMutant({
        .name = "eight_sequences",
        .what = "sequences after the eighth get its coefficients",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = eight_sequences; },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .name = "streamed_head_lost",
        .what = "columns before a row's first cache line are lost past the caches",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<streamed_head_lost>; },
        .options = {{"stream_bytes", "0"}},
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .name = "sweep_streamed_tail_lost",
        .what = "the last columns of a row are lost past the caches",
        .strategy = "one_sweep",
        .change = [](Steps& s) { s.forward_backward = sweep_on_host<streamed_tail_lost>; },
        .options = {{"stream_bytes", "0"}},
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
