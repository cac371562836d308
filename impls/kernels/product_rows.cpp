// SPDX-License-Identifier: Apache-2.0
// Launches the kernels of products by tiles.
#include "impls/kernels/product_rows.h"

#include "harness/device/backend.h"
#include "harness/device/kernel/launch.h"
#include "impls/kernels/cuda/product_kernels-inl.h"
#include "impls/kernels/device_rows.h"

namespace lossgrid {

std::optional<SkipReason> no_product_statistics(Backend backend) {
  const BackendTraits& traits = traits_of(backend);
  if (!traits.launches_kernels) return SkipReason{"forward=tiles is about GPUs"};
  if (!traits.is_gpu) return std::nullopt;  // emulated GPUs run it
  if (cuda_launch<LaunchProductTiles> == nullptr) {
    return SkipReason{"this build has no CUTLASS for forward=tiles"};
  }
  if (!cuda_devices().all_are_sm_90) {
    return SkipReason{"forward=tiles has kernels for GPUs of sm_90 alone"};
  }
  return std::nullopt;
}

std::int64_t product_tile_floats(std::int64_t rows, std::int64_t columns) {
  return rows * (2 * ProductTile::of_row(columns) + 1);
}

std::int64_t product_statistics(const ProductRows& rows, float* tiles, const RowStatistics& out) {
  const CudaProduct product{.hidden = rows.hidden,
                            .weight = rows.weight,
                            .rows = rows.rows,
                            .columns = rows.shard.valid(),
                            .size = rows.size,
                            .alpha = rows.alpha,
                            .first_id = rows.shard.begin,
                            .targets = rows.targets.kernel,
                            .hidden_dtype = rows.hidden_dtype};
  const std::int64_t sums = rows.rows * ProductTile::of_row(product.columns);
  const TileSums to{tiles, tiles + sums, tiles + 2 * sums};
  if (product.rows > 0 && product.columns > 0) {
    launch_kernels(rows.device, LaunchProductTiles{product, to});
  }
  device_work().flops += 2 * product.rows * product.columns * product.size;
  launch_kernels(rows.device,
                 LaunchMergeTiles{product, to, {out.shift, out.sum, out.target, nullptr, nullptr}});
  return owned_targets(rows.rows, rows.shard, rows.targets, rows.valid);
}

}  // namespace lossgrid
