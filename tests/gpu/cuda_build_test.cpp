// SPDX-License-Identifier: Apache-2.0
// A launch that no .cu file names would run on the host, or not at all, on GPUs only.
#include <gtest/gtest.h>

#include "harness/device/cuda/cuda_launch.h"
#include "harness/device/kernel/launch_items.h"
#include "harness/loss/objective_kernels-inl.h"
#include "harness/loss/step_statistics_terms.h"
#include "impls/kernels/cuda/hidden_kernels-inl.h"
#include "impls/kernels/cuda/rounded_gradient-inl.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/objectives/clipped_pg_terms.h"
#include "impls/objectives/nll_terms.h"
#include "impls/objectives/pair_terms.h"
#include "impls/row_positions.h"
#include "impls/statistics_rows.h"

namespace lossgrid {
namespace {

template <class... Launches>
void expect_named(bool built) {
  const bool named[] = {cuda_launch<Launches> != nullptr...};
  for (const bool is_named : named) EXPECT_EQ(is_named, built);
}

template <class... Terms>
void expect_terms(bool built) {
  expect_named<LaunchSequenceSums<Terms>..., LaunchTokenTerms<Terms>...>(built);
}

template <class... Items>
void expect_items(bool built) {
  expect_named<LaunchItems<Items>...>(built);
}

TEST(CudaBuild, HasTheKernelsOfEverything) {
  const bool built = cuda_launch<LaunchStatistics> != nullptr;
  expect_named<LaunchGradient, LaunchRoundedGradient, LaunchForwardBackward>(built);
  expect_named<LaunchGatherRows, LaunchClearRows, LaunchRoundRows, LaunchWriteFloats>(built);
  expect_terms<NllTerms, PairTerms, ClippedPgTerms<ClippedPgFormulas, double>, StepStatisticsTerms>(
      built);
  expect_items<NegateMin, MergeRow, MoveShift, WriteRow, ScatterRow, GatherRow, ScaleRow>(built);
}

}  // namespace
}  // namespace lossgrid
