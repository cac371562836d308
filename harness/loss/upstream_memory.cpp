// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/upstream_memory.h"

#include <algorithm>

#include <fmt/core.h>

namespace lossgrid {
namespace {

// Bytes of one element of a chunk in the backward pass: float32, float32, int64, int64.
constexpr std::int64_t kChunkElementBytes = 4 + 4 + 8 + 8;

constexpr std::int64_t kLogitsChunkTokens = 1024;   // the default of SkyRL, #1610
constexpr std::int64_t kLinearCeChunkTokens = 256;  // of NeMo-RL's DPO guide

void add_logits(const LossProblem& problem, std::vector<UpstreamMemory>& out) {
  const std::int64_t elements = problem.local_rows() * problem.width();
  if (problem.dtype == DType::bf16) {
    const std::int64_t chunk = std::min(kLogitsChunkTokens, problem.local_rows());
    out.push_back({"unchunked", unchunked_logprob_bytes(elements)});
    out.push_back(
        {fmt::format("chunk {}", kLogitsChunkTokens),
         chunked_logprob_bytes(elements, chunk * problem.width(), problem.element_bytes())});
  }
  if (problem.grid.cp > 1) {
    out.push_back(
        {"CP gather of logits", gathered_logits_bytes(problem.rows() * problem.width(),
                                                      problem.grid.cp, problem.element_bytes())});
  }
}

}  // namespace

std::int64_t unchunked_logprob_bytes(std::int64_t elements) {
  return (4 + 4 + 4) * elements;
}

std::int64_t chunked_logprob_bytes(std::int64_t elements, std::int64_t chunk_elements,
                                   std::int64_t logit_bytes) {
  return logit_bytes * elements + kChunkElementBytes * chunk_elements;
}

std::int64_t linear_ce_backward_bytes(const LinearCeShape& shape) {
  const std::int64_t chunk_elements = std::min(shape.chunk_tokens, shape.tokens) * shape.width;
  const std::int64_t gathered_bytes = shape.gathers ? 2 * shape.hidden_bytes : 0;
  return kChunkElementBytes * chunk_elements + (gathered_bytes + 12) * shape.tokens * shape.hidden +
         (shape.weight_bytes + 8) * shape.width * shape.hidden;
}

std::int64_t gathered_logits_bytes(std::int64_t pack_elements, int cp, std::int64_t logit_bytes) {
  return logit_bytes * (2 * pack_elements - pack_elements / cp);
}

std::vector<UpstreamMemory> upstream_memory(const LossProblem& problem) {
  std::vector<UpstreamMemory> out;
  if (!problem.from_hidden()) {
    add_logits(problem, out);
  } else if (problem.grid.cp == 1) {
    const std::int64_t bytes = problem.element_bytes();
    out.push_back(
        {fmt::format("linear CE, chunk {}", kLinearCeChunkTokens),
         linear_ce_backward_bytes({problem.local_rows(), problem.head.hidden, problem.width(),
                                   kLinearCeChunkTokens, bytes, bytes, problem.grid.tp > 1})});
  }
  return out;
}

}  // namespace lossgrid
