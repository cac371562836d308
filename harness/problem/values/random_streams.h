// SPDX-License-Identifier: Apache-2.0
// `Stream`: numbers of the random streams of a case's seed, one for each tensor. A number is never
// used for two tensors and never changes its meaning: cases are named by their seed.
#pragma once

#include <cstdint>

#include "harness/core/philox.h"

namespace lossgrid {

enum class Stream : std::uint32_t {
  lengths = 1,
  input_ids = 2,
  token_mask = 3,
  sparse_pick = 4,  // the one target that a sparse mask always has
  logits = 5,
  pad_ids = 6,     // ids of padding, where cu_seqlens holds padded lengths
  pad_logits = 7,  // finite values of padding, where nothing is poisoned
  advantages = 8,
  prev_logprobs = 9,
  sequence_drift = 10,  // offset shared by all previous log-probabilities of a sequence
  generation_logprobs = 11,
  reference_policy_logprobs = 12,
  rewards = 13,
  far_tokens = 14,  // choice of the tokens that drift far, and their targets
  partition = 15,   // the microbatch of a sequence
  hidden = 16,
  weight = 17,
  embedding_gradient = 18,
  pad_hidden = 19,  // finite values of padding rows and ids, where nothing is poisoned
  pad_weight = 20,
  temperatures = 21,  // of sequences
  teacher = 22,
  teacher_logprobs = 23,
  bias = 24,  // of the LM head
  pad_bias = 25,
  kept_targets = 26,        // targets that a sampler could have drawn
  lacking_logprobs = 27,    // of the generating policy, that are not finite
  pad_teacher_hidden = 28,  // as pad_hidden and pad_weight, of a teacher
  pad_teacher_weight = 29,
  returns = 30,
  old_values = 31,
  dynamic_packs = 32,  // the pack of a sequence among those of its microbatch, on a dynamic grid
  versions = 33,       // of the policies that sampled
};

inline RandomStream random_stream(std::uint64_t seed, Stream stream) {
  return RandomStream(seed, static_cast<std::uint32_t>(stream));
}

}  // namespace lossgrid
