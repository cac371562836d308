// SPDX-License-Identifier: Apache-2.0
// Wrong batches: denominators of the wrong thing, inputs about the wrong token, samples and dummies
// that count although they should not.
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

/// Input `which` about token t is taken from token t + offset of the sequence.
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

/// The last row of a sequence counts as well, with the first token as its target and what a roll
/// of the whole row leaves there: a reference of 0.
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

const RegisteredMutant mutants[] = {
    RegisteredMutant({"M29",
                      "denominators_swapped",
                      "tokens divide what sequences should",
                      "fused",
                      keep_steps,
                      {},
                      denominators_swapped}),
    RegisteredMutant({"M30",
                      "sample_mask_not_in_denominators",
                      "masked samples count in the denominators",
                      "cp_local",
                      keep_steps,
                      {},
                      sample_mask_not_in_denominators}),
    RegisteredMutant({"M30",
                      "sample_mask_ignored",
                      "masked samples are trained on",
                      "fused",
                      keep_steps,
                      {},
                      sample_mask_ignored}),
    RegisteredMutant({"M46",
                      "previous_misaligned",
                      "previous log-probabilities of the token before",
                      "fused",
                      keep_steps,
                      {},
                      [](PackedBatch& b) { shift_input(b, TokenInput::prev_logprobs, -1); }}),
    RegisteredMutant(
        {"M46",
         "reference_rolled_again",
         "reference log-probabilities rolled where they were rolled before",
         "cp_local",
         keep_steps,
         {},
         [](PackedBatch& b) { shift_input(b, TokenInput::reference_policy_logprobs, 1); }}),
    RegisteredMutant({"M47", "last_column_counted",
                      "the wrapped reference of the last column counts", "fused",
                      [](Steps& s) { s.shift = last_column_counted; }}),
    RegisteredMutant({"M54",
                      "dummy_counts",
                      "a dummy microbatch contributes",
                      "fused",
                      keep_steps,
                      {},
                      dummy_counts}),
    RegisteredMutant({"M57",
                      "float_counters",
                      "counts kept in float32",
                      "cp_local",
                      keep_steps,
                      {},
                      float_counters}),
    RegisteredMutant({"",
                      "advantage_of_previous_token",
                      "advantages of the token before",
                      "fused",
                      keep_steps,
                      {},
                      [](PackedBatch& b) { shift_input(b, TokenInput::advantages, -1); }}),
};

}  // namespace
}  // namespace lossgrid
