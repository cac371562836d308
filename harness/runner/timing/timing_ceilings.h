// SPDX-License-Identifier: Apache-2.0
// Ceilings of a timing: memory that is only read, copied or updated, at the size of a rank's
// logits; or, of a case from hidden states, the three products of the lm_head, as implementations
// make them. On a GPU, of a case in bf16, also with bf16 results of all rows of the rank: what the
// library reaches where nothing holds it up. They are items of the same rounds as the
// implementations, all ranks at once, with the threads of a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/loss/loss_implementation.h"
#include "harness/measure/sampler.h"

namespace lossgrid {

/// One ceiling of one rank: the bytes that it moves, or the FLOPs of it; the other is 0.
struct Ceiling {
  // "read", "copy", "update"; "gemm_logits", "gemm_hidden", "gemm_weight", or these with "_bf16"
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
  // Names of its variants, the steps of its item; the fastest counts.
  std::vector<std::string> variants;
};

/// Returns the ceilings of a problem. `product_rows`: rows of logits that exist at a time, where
/// the problem starts from hidden states.
std::vector<Ceiling> ceilings_of(const LossProblem& problem, std::int64_t product_rows);

/// Returns the bytes that the items below allocate on a rank.
std::int64_t ceiling_memory_bytes(const LossProblem& problem, std::int64_t product_rows);

/// Makes the items of ceilings_of(), one step for each variant. They read `inputs` and overwrite
/// `gradients` with meaningless values. All arguments outlive the items.
std::vector<std::unique_ptr<SampledItem>> make_ceiling_items(const LossProblem& problem,
                                                             std::int64_t product_rows,
                                                             Device& device,
                                                             const LossInputs& inputs,
                                                             const LossGradients& gradients);

}  // namespace lossgrid
