// SPDX-License-Identifier: Apache-2.0
// The steps by token of objectives on a GPU: a line for the terms of each.
#include "harness/device/cuda/device_block.cuh"
#include "harness/loss/cuda/launch_terms.h"
#include "harness/loss/cuda/objective_kernels-inl.h"
#include "harness/loss/step_statistics_terms.h"
#include "impls/objectives/clipped_pg_terms.h"
#include "impls/objectives/dpo_terms.h"
#include "impls/objectives/nll_terms.h"

namespace lossgrid {
namespace {

template <class Terms>
const char* sequence_sums(void* stream, const Terms& terms, const ObjectiveTokens& tokens,
                          SequenceTable<double> sums) {
  DeviceLauncher launcher(stream);
  launch_sequence_sums(launcher, terms, tokens, sums);
  return launcher.said();
}

template <class Terms>
const char* token_terms(void* stream, const Terms& terms, const ObjectiveTokens& tokens,
                        SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                        float* grad_logprobs, std::int64_t blocks, double* partials) {
  DeviceLauncher launcher(stream);
  launch_token_terms(launcher, terms, tokens, coefficients, totals, grad_logprobs, blocks,
                     partials);
  return launcher.said();
}

template <class Terms>
struct OnGpu {
  OnGpu() {
    static const TermsLaunches<Terms> launches{sequence_sums<Terms>, token_terms<Terms>};
    cuda_launches<Terms> = &launches;
  }
};

const OnGpu<NllTerms> nll;
const OnGpu<ClippedPgTerms<>> clipped_pg;
const OnGpu<DpoTerms> dpo;
const OnGpu<StepStatisticsTerms> step_statistics;

}  // namespace
}  // namespace lossgrid
