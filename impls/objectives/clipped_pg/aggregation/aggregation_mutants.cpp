// SPDX-License-Identifier: Apache-2.0
// Mutants of the aggregation of tokens to a loss: other sequences, tokens or factors that it
// divides by, and terms that are aggregated in another way than the policy term.
#include <algorithm>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

using Mode = AggregationMode;

/// Returns clipped_pg with other options; null if `change` returns false.
std::unique_ptr<Objective> with_aggregation(const ObjectiveSpec& spec,
                                            bool (*change)(ClippedPgOptions&)) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!options.loss_agg_mode || !change(options)) return nullptr;
  return std::make_unique<ClippedPgObjective<>>(options);
}

bool is_over_sequences(const ClippedPgOptions& options) {
  return options.loss_agg_mode && !options.aggregation().over_tokens();
}

/// Gives the loss another mode if it has `from`.
template <Mode from, Mode to>
std::unique_ptr<Objective> with_mode(const ObjectiveSpec& spec) {
  return with_aggregation(spec, [](ClippedPgOptions& options) {
    const bool applies = options.loss_agg_mode == from;
    options.loss_agg_mode = to;
    return applies;
  });
}

bool masked_sequences_too(ClippedPgOptions& options) {
  const bool applies = is_over_sequences(options) && !options.count_masked_sequences;
  options.count_masked_sequences = true;
  return applies;
}

struct SequencesBySampleMask : ClippedPgFormulas {
  template <typename Real>
  static Real share(Aggregation aggregation, const Denominators& counts, std::int64_t tokens) {
    aggregation.counted = CountedSequences::by_sample_mask;
    return share_of_token<Real>(aggregation, counts, tokens);
  }
};

/// `KlOverTokens`: aggregates the KL as a mean over tokens, whatever the mode.
struct KlOverTokens : ClippedPgFormulas {
  template <typename Real>
  static Real kl_share(Real /*share*/, Real token_share) {
    return token_share;
  }
};

bool scale_factor_of_1(ClippedPgOptions& options) {
  const bool is_known = options.loss_agg_mode == Mode::sequence_mean_token_sum_norm;
  options.loss_scale_factor = 1;
  return is_known;
}

/// Multiplies the counted sequences by the width of the padded microbatch.
void sequences_of_padded_width(PackedBatch& batch) {
  std::int64_t width = 1;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) width = std::max(width, batch.length(i));
  batch.denominators.trained_sequences *= width;
  batch.denominators.all_sequences *= width;
}

/// Counts the sequences of the microbatch alone, as if every one had as many.
void sequences_of_microbatch(PackedBatch& batch) {
  std::int64_t trained = 0;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const auto first = batch.token_mask.begin() + batch.cu_seqlens[i];
    const auto end = batch.token_mask.begin() + batch.cu_seqlens[i + 1];
    const bool is_any = first != end && std::find(first + 1, end, 1) != end;
    trained += is_any && batch.sample_mask[i] != 0 ? 1 : 0;
  }
  const std::int64_t parts = batch.microbatch.count * batch.microbatch.dp;
  batch.denominators.trained_sequences = std::max<std::int64_t>(trained, 1) * parts;
  batch.denominators.all_sequences = std::max<std::int64_t>(batch.sequences(), 1) * parts;
}

bool is_over_groups(const ClippedPgOptions& options) {
  return options.aggregation().over_groups();
}

/// Counts the valid tokens of a sequence in the place of those of its group.
void groups_of_one(PackedBatch& batch) {
  for (std::size_t i = 0; i < batch.group_tokens.size(); ++i) {
    std::int64_t tokens = 0;
    for (std::int64_t t = batch.cu_seqlens[i] + 1; t < batch.cu_seqlens[i + 1]; ++t) {
      tokens += batch.token_mask[t] != 0 && batch.sample_mask[i] != 0 ? 1 : 0;
    }
    batch.group_tokens[i] = tokens;
  }
}

/// Counts the packs of a dp rank in the place of those of all.
void packs_of_rank(PackedBatch& batch) {
  batch.denominators.trained_groups = batch.microbatch.count;
  batch.denominators.all_groups = batch.microbatch.count;
}

bool is_over_packs(ClippedPgOptions& options) {
  return options.aggregation().over_packs();
}

/// `MeanOverSequencesOfGroups`: the mean over groups divided by the sequences.
struct MeanOverSequencesOfGroups : ClippedPgFormulas {
  template <typename Real>
  static Real share(const Aggregation& /*aggregation*/, const Denominators& counts,
                    std::int64_t tokens) {
    return inverse_or_0<Real>(tokens) * inverse_or_0<Real>(counts.valid_sequences);
  }
};

const RegisteredMutant aggregation_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M150",
        .name = "masked_sequences_counted",
        .what = "a mean over sequences counts masked ones, which it should not",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) { return with_aggregation(spec, masked_sequences_too); },
        .seen_in = "SkyRL, TRL, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M150",
        .name = "sequences_without_targets_counted",
        .what = "a mean over sequences counts those of the sample mask that have no target",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<SequencesBySampleMask>(spec, is_over_sequences);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M151",
        .name = "scale_factor_is_padded_width",
        .what = "token sums of sequences are divided by the padded width of their microbatch",
        .strategy = "cp_local",
        .batch = sequences_of_padded_width,
        .objective =
            [](const ObjectiveSpec& spec) { return with_aggregation(spec, scale_factor_of_1); },
        .seen_in = "verl 0.9.1, loss_scale_factor = null",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M152",
        .name = "kl_over_tokens",
        .what = "the KL term is a mean over tokens, whatever loss_agg_mode is",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<KlOverTokens>(spec, [](const ClippedPgOptions& o) {
                return o.loss_agg_mode && o.loss_agg_mode != Mode::token_mean &&
                       o.kl_penalty() != 0;
              });
            },
        .seen_in = "OpenRLHF 0.11.2",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M153",
        .name = "token_sum_is_mean",
        .what = "token-sum: divided by the tokens of the global batch",
        .strategy = "one_sweep",
        .objective = with_mode<Mode::token_sum, Mode::token_mean>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M153",
        .name = "token_sums_are_means",
        .what = "seq-mean-token-sum: means of sequences in the place of sums",
        .strategy = "fused",
        .objective = with_mode<Mode::sequence_mean_token_sum, Mode::sequence_mean_token_mean>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M153",
        .name = "token_means_are_sums",
        .what = "seq-mean-token-mean: sums of sequences in the place of means",
        .strategy = "cp_local",
        .objective = with_mode<Mode::sequence_mean_token_mean, Mode::sequence_mean_token_sum>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M154",
        .name = "mean_over_sequences_of_microbatch",
        .what = "the mean of the microbatches' means over sequences",
        .strategy = "fused",
        .batch = sequences_of_microbatch,
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_aggregation(spec,
                                      [](ClippedPgOptions& o) { return is_over_sequences(o); });
            },
        .seen_in = "TRL 1.16",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M170",
        .name = "groups_of_one",
        .what = "prompt-mean: the mean of a sequence in the place of its group's",
        .strategy = "cp_local",
        .batch = groups_of_one,
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_aggregation(spec, [](ClippedPgOptions& o) { return is_over_groups(o); });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M171",
        .name = "groups_divided_by_sequences",
        .what = "prompt-mean: the sum over groups is divided by the sequences",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<MeanOverSequencesOfGroups>(spec, is_over_groups);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M260",
        .name = "mean_of_packs_is_global",
        .what = "token-mean-legacy: the mean over the tokens of the global batch",
        .strategy = "fused",
        .objective = with_mode<Mode::token_mean_legacy, Mode::token_mean>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M261",
        .name = "packs_of_rank_counted",
        .what = "token-mean-legacy: the sum over all packs is divided by those of one dp rank",
        .strategy = "cp_local",
        .batch = packs_of_rank,
        .objective =
            [](const ObjectiveSpec& spec) { return with_aggregation(spec, is_over_packs); },
        .seen_in = "a sum over dp ranks in the place of the mean",
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
