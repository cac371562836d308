// SPDX-License-Identifier: Apache-2.0
// ObjectiveBatch: a random batch with everything that an objective may read. The pack has no
// padding, so row t predicts token t + 1. Rows and slots that are not valid hold NaN, and the
// denominators are those of a batch of which this pack is a part.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/core/philox.h"
#include "harness/loss/objective.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {

struct ObjectiveBatch {
  PackedBatch batch;
  std::vector<float> logprobs;          // [rows]
  ByRowTerm<std::vector<float>> terms;  // [rows] each

  std::int64_t rows() const { return batch.padded_tokens(); }
};

struct ObjectiveBatchShape {
  std::vector<std::int64_t> lengths = {9, 1, 6, 0, 12, 2};
  std::vector<std::uint8_t> sample_mask = {};  // empty: ones
  double masked_share = 0.3;                   // of the tokens
  Drift drift = Drift::near;                   // as PolicyDraw has it
  std::uint64_t seed = 1;
  bool part_of_more = true;  // false: the pack is the global batch
  int ahead = 1;  // 0: rows are about their own tokens, of which the last of a sequence counts
};

/// Sequences of a group, where an objective has groups.
inline constexpr std::int64_t kGroupSize = 2;

inline constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

/// Counts the valid tokens of the group of every sequence, and the groups.
inline void count_groups(PackedBatch& batch, bool part_of_more) {
  Denominators& counts = batch.denominators;
  counts.all_groups = counts.trained_groups = part_of_more ? 1 : 0;
  batch.group_tokens.assign(static_cast<std::size_t>(batch.sequences()), 0);
  for (std::int64_t first = 0; first < batch.sequences(); first += kGroupSize) {
    const std::int64_t end = std::min(first + kGroupSize, batch.sequences());
    std::int64_t tokens = part_of_more ? 3 : 0;
    for (std::int64_t i = first; i < end; ++i) {
      for (std::int64_t t = batch.ahead; t < batch.length(i); ++t) {
        const bool is_masked = batch.token_mask[batch.cu_seqlens[i] + t] == 0;
        tokens += is_masked || batch.sample_mask[i] == 0 ? 0 : 1;
      }
    }
    for (std::int64_t i = first; i < end; ++i) batch.group_tokens[i] = tokens;
    counts.all_groups += 1;
    counts.trained_groups += tokens > 0 ? 1 : 0;
  }
}

/// Counts denominators from masks and rewards.
inline Denominators count_denominators(const PackedBatch& batch, bool part_of_more) {
  Denominators counts;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    counts.all_sequences += 1;
    if (batch.sample_mask[i] == 0) continue;
    counts.valid_sequences += 1;
    std::int64_t of_sequence = 0;
    for (std::int64_t t = batch.ahead; t < batch.length(i); ++t) {
      const std::int64_t valid = batch.token_mask[batch.cu_seqlens[i] + t] != 0 ? 1 : 0;
      of_sequence += valid;
      counts.valid_tokens += valid;
      counts.positive_tokens += batch.rewards[i] > 0 ? valid : 0;
    }
    counts.trained_sequences += of_sequence > 0 ? 1 : 0;
  }
  if (!part_of_more) return counts;
  return {counts.valid_tokens + 7, counts.valid_sequences + 3, counts.positive_tokens + 2,
          counts.trained_sequences + 2, counts.all_sequences + 4};
}

/// Draws return and old value of the state with this value: inside of clip ranges of 0.2 to 1
/// around the old one, beyond them and on the end of 0.5, with the return on every side of both
/// values.
inline void draw_values(const RandomStream& random, std::int64_t token, float value,
                        TokenInputs& inputs) {
  const float pick = static_cast<float>(random.uniform(token, 42));
  const float apart = random.normal(token, 16);
  const float old_value = value - (pick < 0.2f ? 0.5f : pick < 0.6f ? 0.3f * apart : 2 * apart);
  const float kind = static_cast<float>(random.uniform(token, 43));
  const float target = kind < 0.3f   ? (value + old_value) / 2
                       : kind < 0.8f ? value + random.normal(token, 17)
                                     : value + 20 * random.normal(token, 17);
  inputs[static_cast<std::size_t>(TokenInput::returns)][token] = target;
  inputs[static_cast<std::size_t>(TokenInput::old_values)][token] = old_value;
}

/// Draws the policies' log-probabilities of a token whose own is `x`, with mass on every branch.
inline void draw_inputs(const RandomStream& random, std::int64_t token, Drift drift, float x,
                        TokenInputs& inputs) {
  const auto normal = [&](std::uint32_t column) { return random.normal(token, column); };
  const auto set = [&](TokenInput which, float value) {
    inputs[static_cast<std::size_t>(which)][token] = value;
  };
  const float pick = static_cast<float>(random.uniform(token, 40));
  float prev = x - normal(8) * (pick < 0.4f ? 0.08f : pick < 0.8f ? 0.5f : 1.3f);
  float generation = prev + normal(9) * (pick < 0.5f ? 0.1f : 0.6f);
  float reference = x + normal(10) * (pick < 0.7f ? 0.5f : 1.8f);
  float teacher = x + normal(12) * (pick < 0.7f ? 0.5f : 1.8f);
  if (drift == Drift::equal) prev = generation = reference = teacher = x;
  if (drift == Drift::far) {
    const int kind = static_cast<int>(random.below(8, token, 41));
    if (kind == 0) generation = prev - 95;
    if (kind == 1) reference = x - 25;
    if (kind == 2) reference = x + 3.5f;
    if (kind == 3) reference = x + 24;
    if (kind == 4) generation = x - 95;
    if (kind == 5) teacher = x - 25;
    if (kind == 6) teacher = x + 4;
  }
  set(TokenInput::prev_logprobs, prev);
  set(TokenInput::generation_logprobs, generation);
  set(TokenInput::reference_policy_logprobs, reference);
  set(TokenInput::teacher_logprobs, teacher);
  // Around version 5 of the current policy: older ones, itself, a later one and none.
  constexpr float kVersions[] = {4, 3, 1, 0, 5, 6, -1};
  set(TokenInput::versions, kVersions[random.below(7, token, 44)]);
  set(TokenInput::advantages, token % 9 == 4 ? 0.0f : normal(11));
}

inline ObjectiveBatch make_objective_batch(const ObjectiveBatchShape& shape) {
  ObjectiveBatch made;
  PackedBatch& batch = made.batch;
  const RandomStream random(shape.seed, 900);
  batch.cu_seqlens = {0};
  for (const std::int64_t length : shape.lengths) {
    batch.cu_seqlens.push_back(batch.cu_seqlens.back() + length);
  }
  batch.cu_seqlens_padded = batch.cu_seqlens;
  batch.input_lengths = shape.lengths;
  const auto tokens = static_cast<std::size_t>(batch.tokens());
  const auto sequences = shape.lengths.size();
  batch.input_ids.assign(tokens, 1);
  batch.sample_mask = shape.sample_mask;
  if (batch.sample_mask.empty()) batch.sample_mask.assign(sequences, 1);
  for (std::size_t i = 0; i < sequences; ++i) {
    const bool masked = batch.sample_mask[i] == 0;
    batch.rewards.push_back(masked ? kPoison : random.normal(i, 20));
  }
  made.logprobs.assign(tokens, kPoison);
  for (std::vector<float>& of_rows : made.terms) of_rows.assign(tokens, kPoison);
  for (std::vector<float>& input : batch.inputs) input.assign(tokens, kPoison);
  batch.token_mask.resize(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    batch.token_mask[t] = random.uniform(t, 0) >= shape.masked_share ? 1 : 0;
  }
  batch.ahead = shape.ahead;
  for (std::size_t i = 0; shape.ahead == 0 && i < sequences; ++i) {
    std::int64_t last = batch.cu_seqlens[i + 1] - 1;
    while (last >= batch.cu_seqlens[i] && batch.token_mask[last] == 0) --last;
    for (std::int64_t t = batch.cu_seqlens[i]; t < last; ++t) batch.token_mask[t] = 0;
  }
  for (std::size_t i = 0; i < sequences; ++i) {
    for (std::int64_t t = batch.cu_seqlens[i] + shape.ahead; t < batch.cu_seqlens[i + 1]; ++t) {
      if (batch.token_mask[t] == 0 || batch.sample_mask[i] == 0) continue;
      made.logprobs[t - shape.ahead] = static_cast<float>(-0.1 - 3 * random.uniform(t, 1));
      made.terms[RowTerm::entropy][t - shape.ahead] = static_cast<float>(3 * random.uniform(t, 2));
      made.terms[RowTerm::vocab_min][t - shape.ahead] = -3 + random.normal(t, 12);
      made.terms[RowTerm::vocab_max][t - shape.ahead] = 3 + random.normal(t, 13);
      made.terms[RowTerm::logsumexp][t - shape.ahead] = 5 * random.normal(t, 14);
      made.terms[RowTerm::mean_logprob][t - shape.ahead] =
          static_cast<float>(-1 - 4 * random.uniform(t, 3));
      made.terms[RowTerm::divergence][t - shape.ahead] =
          static_cast<float>(2 * random.uniform(t, 4));
      made.terms[RowTerm::sum_p2][t - shape.ahead] = static_cast<float>(random.uniform(t, 5));
      made.terms[RowTerm::top1][t - shape.ahead] = random.uniform(t, 6) < 0.4 ? 1.0f : 0.0f;
      made.terms[RowTerm::mean_logit][t - shape.ahead] = random.normal(t, 15);
      draw_values(random, t, made.terms[RowTerm::logsumexp][t - shape.ahead], batch.inputs);
      draw_inputs(random, t, shape.drift, made.logprobs[t - shape.ahead], batch.inputs);
    }
  }
  batch.denominators = count_denominators(batch, shape.part_of_more);
  count_groups(batch, shape.part_of_more);
  return made;
}

/// Returns the batch of sequences of these valid tokens, behind a first one each. write(token,
/// data, slot): writes the numbers of a token.
template <class Token, class Write>
ObjectiveBatch batch_by_hand(const std::vector<std::vector<Token>>& sequences, const Write& write) {
  ObjectiveBatchShape shape{.lengths = {}, .masked_share = 0, .part_of_more = false};
  for (const auto& tokens : sequences) {
    shape.lengths.push_back(static_cast<std::int64_t>(tokens.size()) + 1);
  }
  ObjectiveBatch data = make_objective_batch(shape);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = 0; t < sequences[i].size(); ++t) {
      write(sequences[i][t], data, data.batch.cu_seqlens[i] + static_cast<std::int64_t>(t) + 1);
    }
  }
  return data;
}

inline void set_input(ObjectiveBatch& data, TokenInput which, std::int64_t slot, double value) {
  data.batch.inputs[static_cast<std::size_t>(which)][slot] = static_cast<float>(value);
}

/// Returns the batch with only the inputs that an objective with these needs reads.
inline PackedBatch with_needed(const PackedBatch& batch, const ObjectiveNeeds& needs) {
  PackedBatch needed = batch;
  for (int k = 0; k < kTokenInputs; ++k) {
    if (!needs.inputs[k]) needed.inputs[k].clear();
  }
  if (!needs.rewards) needed.rewards.clear();
  if (!needs.has_groups()) needed.group_tokens.clear();
  return needed;
}

}  // namespace lossgrid
