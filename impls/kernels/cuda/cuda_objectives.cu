// SPDX-License-Identifier: Apache-2.0
// Steps by token of objectives on GPUs: one line for the terms of each objective.
#include "harness/device/cuda/on_gpu.cuh"
#include "harness/loss/objective_kernels-inl.h"
#include "harness/loss/prediction_metrics_terms.h"
#include "harness/loss/step_statistics_terms.h"
#include "impls/objectives/clipped_pg/clipped_pg_terms.h"
#include "impls/objectives/distill/distill_terms.h"
#include "impls/objectives/distill/on_policy_distill_terms.h"
#include "impls/objectives/nll/nll_terms.h"
#include "impls/objectives/pairs/pair_terms.h"
#include "impls/objectives/pairs/score_terms.h"
#include "impls/objectives/value/value_terms.h"

namespace lossgrid {
namespace {

template <class Terms>
using TermsOnGpu = OnGpu<LaunchSequenceSums<Terms>, LaunchTokenTerms<Terms>>;

const TermsOnGpu<NllTerms> nll;
const TermsOnGpu<ClippedPgTerms<>> clipped_pg;
const TermsOnGpu<DistillTerms> distill;
const TermsOnGpu<PairTerms> pairs;
const TermsOnGpu<OnPolicyDistillTerms> on_policy_distill;
const TermsOnGpu<ScoreTerms> scores;
const TermsOnGpu<ValueTerms<>> value;
const TermsOnGpu<StepStatisticsTerms> step_statistics;
const TermsOnGpu<PredictionMetricsTerms> prediction_metrics;

}  // namespace
}  // namespace lossgrid
