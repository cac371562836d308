// SPDX-License-Identifier: Apache-2.0
// Statistics of logits that are never in memory: z = alpha hidden weight^T is made tile by tile,
// each tile is reduced to the moments of its rows, and the moments are merged over the tiles of a
// row. On a GPU CUTLASS makes the tiles (cuda_products.cu) on tensor cores; the kernel of this
// header makes the same tiles by plain sums, for backend cuda_emulated. Both share the code of a
// thread.
#pragma once

#include "impls/kernels/cuda/row_kernels-inl.h"

namespace lossgrid {

/// Factors of logits, row-major bf16 on addresses of 16 bytes; `size` is a multiple of 8.
struct CudaProduct {
  const void* hidden;  // [rows, size]
  const bf16* weight;  // [columns, size]
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t size;
  float alpha;
  std::int64_t first_id;        // vocab id of the first column
  const std::int32_t* targets;  // [rows]; -1: the row predicts nothing
  // In emulation hidden states may be bf16 values in float32, if this processor multiplies them
  // faster.
  DType hidden_dtype;
};

/// Part of the logits that a block holds in registers, and its distribution over threads: two
/// accumulators of `wgmma.m64n256k16`, one below the other (PTX ISA, "Asynchronous warpgroup level
/// matrix instructions", register fragment of D). Four consecutive lanes, a quad, share two rows.
struct ProductTile {
  static constexpr int kRows = 128;
  static constexpr int kColumns = 256;
  static constexpr int kThreads = 256;
  static constexpr int kQuad = 4;
  static constexpr int kRowsOfThread = 2;
  static constexpr int kColumnsOfThread = kColumns / kQuad;

  /// Returns the row in the tile of a thread's first or second row.
  static constexpr int row(int thread, int of_thread) {
    return thread / 128 * 64 + thread / 32 % 4 * 16 + thread % 32 / kQuad + 8 * of_thread;
  }
  /// Returns the column in the tile of the thread's column i; columns ascend with i.
  static constexpr int column(int thread, int i) { return i / 2 * 8 + thread % kQuad * 2 + i % 2; }
  /// Returns the place of an element among the thread's accumulators.
  static constexpr int accumulator(int of_thread, int i) {
    return i / 2 * 4 + of_thread * 2 + i % 2;
  }
  /// Returns the number of tiles of a row of the vocabulary.
  static constexpr std::int64_t of_row(std::int64_t columns) {
    return (columns + kColumns - 1) / kColumns;
  }
};

/// Sums of the rows in each tile, relative to their maximum, and the logits of targets.
struct TileSums {
  float* max;     // [rows, tiles]
  float* sum;     // [rows, tiles] of exp(z - max)
  float* target;  // [rows] z_y, where the shard owns the target
};

/// Logits of a thread in one of its two rows of a tile.
struct LogitsOfThread {
  float z[ProductTile::kColumnsOfThread];  // -inf beyond the last column

  /// Makes the logits of a tile; sums(i) returns the product for the thread's column i.
  template <typename Sums>
  LOSSGRID_KERNEL LogitsOfThread(const CudaProduct& product, std::int64_t tile, int thread,
                                 const Sums& sums) {
    const std::int64_t left = product.columns - tile * ProductTile::kColumns;
    for (int i = 0; i < ProductTile::kColumnsOfThread; ++i) {
      z[i] = ProductTile::column(thread, i) < left ? product.alpha * sums(i) : -infinity();
    }
  }

  LOSSGRID_KERNEL Moments<false> moments() const {
    Moments<false> own = Moments<false>::none();
    own.add_elements(z);
    return own;
  }

  /// Writes the logit of the target of row r of the product, if it is one of these logits.
  LOSSGRID_KERNEL void write_target(const CudaProduct& product, std::int64_t r, std::int64_t tile,
                                    int thread, const TileSums& out) const {
    const std::int64_t column =
        product.targets[r] - product.first_id - tile * ProductTile::kColumns;
    if (column < 0 || column >= ProductTile::kColumns) return;
    for (int i = 0; i < ProductTile::kColumnsOfThread; ++i) {
      if (ProductTile::column(thread, i) == column) out.target[r] = z[i];
    }
  }
};

/// Writes the moments of row r in a tile.
LOSSGRID_KERNEL void write_tile(const CudaProduct& product, std::int64_t r, std::int64_t tile,
                                const Moments<false>& moments, const TileSums& out) {
  const std::int64_t at = r * ProductTile::of_row(product.columns) + tile;
  out.max[at] = moments.max;
  out.sum[at] = moments.sum;
}

/// Kernel of a tile in emulation. Indices of tiles count along the vocabulary, then along rows.
struct ProductTileKernel {
  CudaProduct product;
  TileSums out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t tiles = ProductTile::of_row(product.columns);
    const std::int64_t first_row = block.index() / tiles * ProductTile::kRows;
    // One thread does the work of a quad, and adds in the order of the quad's shuffles.
    block.run([&](int thread) {
      const int step = ProductTile::kQuad * block.threads();  // blocks of tests may be small
      for (int first = ProductTile::kQuad * thread; first < ProductTile::kThreads; first += step) {
        for (int k = 0; k < ProductTile::kRowsOfThread; ++k) {
          const std::int64_t r = first_row + ProductTile::row(first, k);
          if (r < product.rows) run_quad(r, block.index() % tiles, first);
        }
      }
    });
  }

 private:
  LOSSGRID_KERNEL void run_quad(std::int64_t r, std::int64_t tile, int thread) const {
    Moments<false> of_lanes[ProductTile::kQuad];
    for (int lane = 0; lane < ProductTile::kQuad; ++lane) {
      const LogitsOfThread logits(product, tile, thread + lane, [&](int i) {
        return sum_of(r, tile * ProductTile::kColumns + ProductTile::column(thread + lane, i));
      });
      of_lanes[lane] = logits.moments();
      logits.write_target(product, r, tile, thread + lane, out);
    }
    of_lanes[0].add(of_lanes[1]);
    of_lanes[2].add(of_lanes[3]);
    of_lanes[0].add(of_lanes[2]);
    write_tile(product, r, tile, of_lanes[0], out);
  }

  LOSSGRID_KERNEL float sum_of(std::int64_t r, std::int64_t column) const {
    float sum = 0;
    for (std::int64_t k = 0; k < product.size; ++k) {
      sum += hidden(r * product.size + k) * to_float(product.weight[column * product.size + k]);
    }
    return sum;
  }
  LOSSGRID_KERNEL float hidden(std::int64_t k) const {
    return product.hidden_dtype == DType::bf16
               ? to_float(static_cast<const bf16*>(product.hidden)[k])
               : static_cast<const float*>(product.hidden)[k];
  }
};

/// Merges the tiles of a row to its statistics, with one block per row. The longest chain of
/// additions is 6 + 2 in a tile, a 512th of the tiles, and 9 over the threads.
struct MergeTilesKernel {
  CudaProduct product;
  TileSums tiles;
  CudaRowStatistics out;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const std::int64_t r = block.index();
    if (product.targets[r] < 0) {
      block.one([&] { write_no_statistics(out, r); });
      return;
    }
    const std::int64_t count = ProductTile::of_row(product.columns);
    const auto own = block.each([&](int thread) {
      Moments<false> moments = Moments<false>::none();
      for (std::int64_t t = r * count + thread; t < (r + 1) * count; t += block.threads()) {
        Moments<false> tile = Moments<false>::none();
        tile.max = tiles.max[t];
        tile.sum = tiles.sum[t];
        moments.add(tile);
      }
      return moments;
    });
    const Moments<false> whole = moments_of_block<false>(block, own);
    block.one([&] { write_statistics(*this, r, whole, out); });
  }

  /// Returns z_y - shift; 0 if another shard has the target.
  LOSSGRID_KERNEL float target_distance(std::int64_t r, float shift) const {
    const std::int64_t column = product.targets[r] - product.first_id;
    return column >= 0 && column < product.columns ? tiles.target[r] - shift : 0.0f;
  }
};

// Launches (launch.h).

/// Launch of the tiles, on a GPU by the kernel of CUTLASS (cuda_products.cu).
struct LaunchProductTiles {
  static constexpr const char* kName = "product_tiles";
  CudaProduct product;
  TileSums out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    const std::int64_t row_tiles = (product.rows + ProductTile::kRows - 1) / ProductTile::kRows;
    launcher(ProductTileKernel{product, out}, row_tiles * ProductTile::of_row(product.columns), 0);
  }
};

struct LaunchMergeTiles {
  static constexpr const char* kName = "merge_tiles";
  CudaProduct product;
  TileSums tiles;
  CudaRowStatistics out;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(MergeTilesKernel{product, tiles, out}, product.rows, 0);
  }
};

}  // namespace lossgrid
