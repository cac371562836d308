// SPDX-License-Identifier: Apache-2.0
// A launch that no .cu file names, or whose code of the host is wrong, would fail on GPUs only.
#include <type_traits>

#include <gtest/gtest.h>

#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_launch.h"
#include "harness/device/kernel/launch_items.h"
#include "harness/loss/objective_kernels-inl.h"
#include "harness/loss/step_statistics_terms.h"
#include "impls/kernels/cuda/hidden_kernels-inl.h"
#include "impls/kernels/cuda/product_kernels-inl.h"
#include "impls/kernels/cuda/rounded_gradient-inl.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/row_positions.h"
#include "impls/kernels/statistics_rows.h"
#include "impls/objectives/clipped_pg/clipped_pg_terms.h"
#include "impls/objectives/nll/nll_terms.h"
#include "impls/objectives/pairs/pair_terms.h"

namespace lossgrid {
namespace {

/// Launches without work, and so runs the code of the host: nvcc lets it call functions of the
/// device, which end the process there.
template <class Launch>
void expect_launch(bool built) {
  ASSERT_EQ(cuda_launch<Launch> != nullptr, built) << Launch::kName;
  if constexpr (std::is_default_constructible_v<Launch>) {
    if (!built) return;
    const char* const error = cuda_launch<Launch>(nullptr, Launch{});
    if (cuda_devices().no_gpu) return;
    EXPECT_EQ(error, nullptr) << Launch::kName << ": " << error;
  }
}

template <class... Launches>
void expect_named(bool built) {
  (expect_launch<Launches>(built), ...);
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
  expect_named<LaunchStatistics, LaunchGradient, LaunchRoundedGradient, LaunchForwardBackward>(
      built);
  expect_named<LaunchMergeTiles>(built);
  expect_named<LaunchProductTiles>(LOSSGRID_HAS_CUTLASS);
  expect_named<LaunchGatherRows, LaunchClearRows, LaunchRoundRows, LaunchWriteFloats>(built);
  expect_terms<NllTerms, PairTerms, ClippedPgTerms<ClippedPgFormulas, double>, StepStatisticsTerms>(
      built);
  expect_items<NegateMin, MergeRow, MoveShift, WriteRow, ScatterRow, GatherRow, ScaleRow>(built);
}

}  // namespace
}  // namespace lossgrid
