// SPDX-License-Identifier: Apache-2.0
// Mutants that read another batch: wrong denominators, inputs of the wrong token, samples and
// dummies that count although they should not.
#include <algorithm>

#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

void denominators_swapped(PackedBatch& batch) {
  std::swap(batch.denominators.valid_tokens, batch.denominators.valid_sequences);
}

void float_counters(PackedBatch& batch) {
  const auto rounded = [](std::int64_t& count) {
    count = static_cast<std::int64_t>(static_cast<float>(count));
  };
  rounded(batch.denominators.valid_tokens);
  rounded(batch.denominators.valid_sequences);
}

void sample_mask_not_in_denominators(PackedBatch& batch) {
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.sample_mask[i] != 0) continue;
    ++batch.denominators.valid_sequences;
    for (std::int64_t t = 1; t < batch.length(i); ++t) {
      batch.denominators.valid_tokens += batch.token_mask[batch.cu_seqlens[i] + t];
    }
  }
}

void sample_mask_ignored(PackedBatch& batch) {
  std::fill(batch.sample_mask.begin(), batch.sample_mask.end(), std::uint8_t{1});
}

void dummy_counts(PackedBatch& batch) {
  if (batch.microbatch.dummy) sample_mask_ignored(batch);
}

/// Takes input `which` of token t from token t + offset of the sequence.
void shift_input(PackedBatch& batch, TokenInput which, std::int64_t offset) {
  std::vector<float>& values = batch.inputs[static_cast<std::size_t>(which)];
  if (values.empty()) return;
  const std::vector<float> right = values;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    for (std::int64_t t = 0; t < batch.length(i); ++t) {
      const std::int64_t from = t + offset;
      const bool inside = from >= 0 && from < batch.length(i);
      values[batch.cu_seqlens[i] + t] = inside ? right[batch.cu_seqlens[i] + from] : 0.0f;
    }
  }
}

/// Trains on the last row of a sequence too, with the first token as its target and the reference
/// of 0 that a roll of the whole row leaves there.
ShiftedBatch last_column_counted(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  const auto reference = static_cast<std::size_t>(TokenInput::reference_policy_logprobs);
  if (rows.inputs[reference].empty()) return rows;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.length(i) == 0 || batch.sample_mask[i] == 0) continue;
    const std::int64_t last = batch.cu_seqlens_padded[i] + batch.length(i) - 1;
    rows.targets[last] = batch.input_ids[batch.cu_seqlens[i]];
    rows.valid[last] = 1;
    rows.inputs[reference][last] = 0;
  }
  return rows;
}

const RegisteredMutant batch_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M29",
        .name = "denominators_swapped",
        .what = "tokens divide what sequences should",
        .strategy = "fused",
        .batch = denominators_swapped,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M30",
        .name = "sample_mask_not_in_denominators",
        .what = "masked samples count in the denominators",
        .strategy = "cp_local",
        .batch = sample_mask_not_in_denominators,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M30",
        .name = "sample_mask_ignored",
        .what = "masked samples are trained on",
        .strategy = "fused",
        .batch = sample_mask_ignored,
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M46",
        .name = "previous_misaligned",
        .what = "previous log-probabilities of the token before",
        .strategy = "fused",
        .batch = [](PackedBatch& b) { shift_input(b, TokenInput::prev_logprobs, -1); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M46",
        .name = "reference_rolled_again",
        .what = "reference log-probabilities rolled where they were rolled before",
        .strategy = "cp_local",
        .batch = [](PackedBatch& b) { shift_input(b, TokenInput::reference_policy_logprobs, 1); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M137",
        .name = "teacher_logprobs_rolled_again",
        .what = "log-probabilities of the teacher rolled where they were rolled before",
        .strategy = "fused",
        .batch = [](PackedBatch& b) { shift_input(b, TokenInput::teacher_logprobs, 1); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M47",
        .name = "last_column_counted",
        .what = "the wrapped reference of the last column counts",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = last_column_counted; },
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M54",
        .name = "dummy_counts",
        .what = "a dummy microbatch contributes",
        .strategy = "fused",
        .batch = dummy_counts,
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M57",
        .name = "float_counters",
        .what = "counts kept in float32",
        .strategy = "cp_local",
        .batch = float_counters,
        .seen_in = "NeMo-RL, `global_valid_toks`",
        .rejected_by = "metric.global_valid_toks",
    }),
    RegisteredMutant({
        .name = "advantage_of_previous_token",
        .what = "advantages of the token before",
        .strategy = "fused",
        .batch = [](PackedBatch& b) { shift_input(b, TokenInput::advantages, -1); },
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
