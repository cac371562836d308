// SPDX-License-Identifier: Apache-2.0
// What a .cu file forgets to name would run on the host, or not at all, on GPUs only.
#include <gtest/gtest.h>

#include "harness/device/cuda/items-inl.h"
#include "harness/loss/cuda/launch_terms.h"
#include "harness/loss/step_statistics_terms.h"
#include "impls/kernels/cuda/cuda_hidden.h"
#include "impls/kernels/cuda/cuda_rows.h"
#include "impls/objectives/clipped_pg_terms.h"
#include "impls/objectives/dpo_terms.h"
#include "impls/objectives/nll_terms.h"
#include "impls/row_positions.h"
#include "impls/statistics_rows.h"

namespace lossgrid {
namespace {

template <class... Terms>
void expect_launches(bool built) {
  const bool named[] = {cuda_launches<Terms> != nullptr...};
  for (const bool is_named : named) EXPECT_EQ(is_named, built);
}

template <class... Items>
void expect_items(bool built) {
  const bool named[] = {cuda_items<Items> != nullptr...};
  for (const bool is_named : named) EXPECT_EQ(is_named, built);
}

TEST(CudaBuild, HasTheKernelsOfEverything) {
  const bool built = cuda_row_kernels() != nullptr;
  EXPECT_EQ(cuda_hidden_kernels() != nullptr, built);
  expect_launches<NllTerms, DpoTerms, ClippedPgTerms<ClippedPgFormulas, double>,
                  StepStatisticsTerms>(built);
  expect_items<NegateMin, MergeRow, MoveShift, WriteRow, ScatterRow, PickRow, ScaleRow>(built);
}

}  // namespace
}  // namespace lossgrid
