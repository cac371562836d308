// SPDX-License-Identifier: Apache-2.0
// How the kernels of an objective's terms are launched on a GPU: a .cu file sets what a build with
// CUDA has. Plain data only: nvcc compiles this header.
#pragma once

#include "harness/loss/objective_tokens.h"

namespace lossgrid {

/// Each returns null, or what CUDA says is wrong.
template <class Terms>
struct TermsLaunches {
  const char* (*sequence_sums)(void* stream, const Terms&, const ObjectiveTokens&,
                               SequenceTable<double> sums);
  const char* (*token_terms)(void* stream, const Terms&, const ObjectiveTokens&,
                             SequenceTable<const double> coefficients, ObjectiveTotals<double>,
                             float* grad_logprobs, std::int64_t blocks, double* partials);
};

/// Null in a build without CUDA, and for terms that no .cu file names.
template <class Terms>
inline const TermsLaunches<Terms>* cuda_launches = nullptr;

}  // namespace lossgrid
