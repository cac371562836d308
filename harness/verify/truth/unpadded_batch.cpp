// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/unpadded_batch.h"

#include <map>

namespace lossgrid {
namespace {

/// Counts over the whole batch, from lengths, masks and rewards alone: implementations are given
/// what others count. Global counts that a case states are taken as stated.
Denominators true_denominators(const Problem& problem) {
  Denominators counts;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    std::int64_t valid = 0;
    // The first token is no target of a vocabulary.
    for (std::int64_t t = problem.ahead(); t < problem.lengths[i]; ++t) {
      if (problem.token_mask[first + t] != 0) ++valid;
    }
    first += problem.lengths[i];
    counts.all_sequences += 1;
    if (problem.sample_mask[i] == 0) continue;
    counts.valid_sequences += 1;
    counts.trained_sequences += valid > 0 ? 1 : 0;
    counts.valid_tokens += valid;
    if (!problem.rewards.empty() && problem.rewards[i] > 0) counts.positive_tokens += valid;
  }
  const CaseSpec& spec = problem.spec;
  if (spec.global_valid_toks != 0) counts.valid_tokens = spec.global_valid_toks;
  if (spec.global_valid_seqs != 0) {
    counts.valid_sequences = counts.trained_sequences = counts.all_sequences =
        spec.global_valid_seqs;
  }
  const bool are_needed = problem.denominators.all_sequences > 0;
  if (!are_needed) counts.trained_sequences = counts.all_sequences = 0;
  return counts;
}

/// Adds the valid tokens of the group of every sequence, and the groups.
void count_true_groups(const Problem& problem, PackedBatch& batch) {
  if (problem.group_count == 0) return;
  const std::vector<std::uint8_t> valid = problem.row_valid();
  std::map<std::int64_t, std::int64_t> tokens;
  for (std::int64_t group = 0; group < problem.group_count; ++group) tokens[group] = 0;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    std::int64_t& of_group = tokens[problem.groups[i]];
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      of_group += valid[t];
    }
  }
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    batch.group_tokens.push_back(tokens[problem.groups[i]]);
  }
  for (const auto& [group, of_group] : tokens) {
    batch.denominators.all_groups += 1;
    batch.denominators.trained_groups += of_group > 0 ? 1 : 0;
  }
}

}  // namespace

PackedBatch unpadded_batch(const Problem& problem) {
  PackedBatch batch;
  batch.cu_seqlens = problem.cu_seqlens;
  batch.cu_seqlens_padded = problem.cu_seqlens;
  batch.ahead = problem.ahead();
  batch.input_ids = problem.input_ids;
  batch.token_mask = problem.token_mask;
  batch.sample_mask = problem.sample_mask;
  batch.denominators = true_denominators(problem);
  batch.inputs = problem.inputs;
  batch.rewards = problem.rewards;
  batch.input_lengths = problem.lengths;
  batch.microbatch = problem.microbatch;
  count_true_groups(problem, batch);
  return batch;
}

}  // namespace lossgrid
