// SPDX-License-Identifier: Apache-2.0
// Memory models of the losses of other training stacks, as formulas of shapes, shown by `lossgrid
// plan`: temporaries as large as logits, hidden states or weight that live at the same time on one
// rank. Read from their code and compared with the peaks that their authors published; none of
// their code runs here. Sizes are not negative; products must fit 63 bits.
//
// N = T_c V_t: elements of a rank's logits; n_c: those of a chunk of rows; b: bytes of an element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/loss/loss_implementation.h"

namespace lossgrid {

/// 12 N: log-probabilities of 16-bit logits without chunks, forward and backward. A float32 copy
/// (4), the log-softmax (4) and the gradient (4). NeMo-RL's review of #4114 measured 5.87 GiB for
/// logits [1, 4096, 128256].
std::int64_t unchunked_logprob_bytes(std::int64_t elements);

/// b_l N + 24 n_c: NeMo-RL's `ChunkedDistributedLogprob` in its backward pass, for 16-bit logits.
/// The gradient in the dtype of the logits, and of one chunk a float32 copy (4), the softmax (4),
/// an int64 one-hot (8) and its masked copy (8). The same review: 2.45 GiB with 512 tokens a chunk.
std::int64_t chunked_logprob_bytes(std::int64_t elements, std::int64_t chunk_elements,
                                   std::int64_t logit_bytes);

struct LinearCeShape {
  std::int64_t tokens = 0;  // S Bm: rows that a rank works on, those of all TP ranks with SP
  std::int64_t hidden = 0;  // H
  std::int64_t width = 0;   // V_t
  std::int64_t chunk_tokens = 0;
  std::int64_t hidden_bytes = 2;
  std::int64_t weight_bytes = 2;
  bool gathers = true;  // over TP; a single TP rank has the hidden states already
};

/// 24 n_c + (2 b_h + 12) S Bm H + (b_w + 8) V_t H: NeMo-RL's
/// `ChunkedDistributedHiddenStatesToLogprobs` in its backward pass. Of one chunk the bytes
/// of chunked_logprob_bytes; the hidden states received and concatenated (2 b_h, only where they
/// are gathered); their float32 gradient by chunk, concatenated and transposed (12); the gradient
/// of the weight (b_w) and of one chunk's share a float32 product and its transpose (8). The last
/// two kinds do not peak at the same moment, and tensors of the chunk before that are not freed yet
/// are not counted: a model, for which no measurement is published.
std::int64_t linear_ce_backward_bytes(const LinearCeShape& shape);

/// b_l V_t T (2 - 1 / cp) for `pack_elements` = T V_t: AReaL's
/// `postprocess_packed_seqs_context_parallel`, which #1223 no longer needs. The shards received
/// from the other CP ranks, and the pack reassembled from them; not its copy of one sequence.
std::int64_t gathered_logits_bytes(std::int64_t pack_elements, int cp, std::int64_t logit_bytes);

struct UpstreamMemory {
  std::string name;  // "unchunked", "chunk 1024" (tokens), ...
  std::int64_t bytes = 0;
};

/// Returns the models above that apply: to logits in bf16 the first two, with CP the gather; to
/// hidden states the linear cross-entropy, which upstream has without CP only.
std::vector<UpstreamMemory> upstream_memory(const LossProblem& problem);

}  // namespace lossgrid
