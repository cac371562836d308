// SPDX-License-Identifier: Apache-2.0
// Tiles of products on GPUs of sm_90: CUTLASS's warp-specialised product (TMA loads in clusters of
// two blocks, `wgmma`), whose epilogue makes the moments of rows and writes no logits. Compiled
// where the headers of CUTLASS are found. It has not run on a GPU yet; the compiler checks that
// threads hold the elements that ProductTile names.
#include <utility>

#include <cutlass/epilogue/collective/detail.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "harness/core/process/heap_watch.h"
#include "harness/device/cuda/cuda_launch.h"
#include "impls/kernels/cuda/product_kernels-inl.h"

namespace lossgrid {
namespace {

/// Epilogue of CUTLASS 3 that writes the moments of a tile in place of its elements: called once
/// per tile by all threads that hold a part of the tile.
class StatisticsEpilogue {
 public:
  // No matrix is read, and no matrix is written.
  using ElementC = void;
  using ElementD = float;
  using ElementOutput = float;
  using ElementAccumulator = float;
  using ElementCompute = float;
  using StrideC = cute::Stride<std::int64_t, cute::_1, std::int64_t>;
  using StrideD = StrideC;
  using DispatchPolicy = cutlass::epilogue::NoSmemWarpSpecialized;
  struct ThreadEpilogueOp {
    using ElementOutput = float;
    using ElementAccumulator = float;
    using ElementCompute = float;
  };
  struct SharedStorage {};
  struct Arguments {
    CudaProduct product;
    TileSums out;
  };
  using Params = Arguments;

  template <typename Shape>
  static Params to_underlying_arguments(const Shape&, const Arguments& arguments, void*) {
    return arguments;
  }
  template <typename Shape>
  static std::size_t get_workspace_size(const Shape&, const Arguments&) {
    return 0;
  }
  template <typename Shape>
  static cutlass::Status initialize_workspace(const Shape&, const Arguments&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }
  template <typename Shape>
  static bool can_implement(const Shape&, const Arguments&) {
    return true;
  }

  __device__ explicit StatisticsEpilogue(const Params& params) : params_(params) {}

  template <typename Shape, typename Block, typename Place, typename Engine, typename Layout,
            typename Mma, typename Left>
  __device__ void operator()(const Shape&, const Block&, const Place& place,
                             const cute::Tensor<Engine, Layout>& sums, const Mma&, const Left&,
                             int thread, char*) const {
    const CudaProduct& product = params_.product;
    const std::int64_t first_row = std::int64_t{cute::get<0>(place)} * ProductTile::kRows;
    const std::int64_t tile = cute::get<1>(place);
    CUTLASS_PRAGMA_UNROLL
    for (int k = 0; k < ProductTile::kRowsOfThread; ++k) {
      const LogitsOfThread logits(product, tile, thread,
                                  [&](int i) { return sums(ProductTile::accumulator(k, i)); });
      Moments<false> moments = logits.moments();
      CUTLASS_PRAGMA_UNROLL
      for (int distance = 1; distance < ProductTile::kQuad; distance *= 2) {
        Moments<false> other = Moments<false>::none();
        other.max = __shfl_xor_sync(0xffffffffu, moments.max, distance);
        other.sum = __shfl_xor_sync(0xffffffffu, moments.sum, distance);
        moments.add(other);
      }
      const std::int64_t r = first_row + ProductTile::row(thread, k);
      if (r >= product.rows) continue;
      if (thread % ProductTile::kQuad == 0) write_tile(product, r, tile, moments, params_.out);
      logits.write_target(product, r, tile, thread, params_.out);
    }
  }

 private:
  Params params_;
};

using Epilogue =
    cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<StatisticsEpilogue>;
constexpr int kAligned = 8;  // elements of 16 bytes
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, cutlass::bfloat16_t,
    cutlass::layout::RowMajor, kAligned, cutlass::bfloat16_t, cutlass::layout::ColumnMajor,
    kAligned, float,
    cute::Shape<cute::Int<ProductTile::kRows>, cute::Int<ProductTile::kColumns>, cute::_64>,
    cute::Shape<cute::_2, cute::_1, cute::_1>,
    cutlass::gemm::collective::StageCountAutoCarveout<sizeof(Epilogue::SharedStorage)>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Product = cutlass::gemm::device::GemmUniversalAdapter<
    cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>>;

/// True if an accumulator of a thread is the element that ProductTile names.
constexpr bool is_element(int thread, int of_thread, int i) {
  const auto tile = cute::make_identity_tensor(
      cute::Shape<cute::Int<ProductTile::kRows>, cute::Int<ProductTile::kColumns>>{});
  const auto own = Mainloop::TiledMma{}.get_slice(thread).partition_C(tile);
  const auto place = own(ProductTile::accumulator(of_thread, i));
  return cute::get<0>(place) == ProductTile::row(thread, of_thread) &&
         cute::get<1>(place) == ProductTile::column(thread, i);
}

// Both places are sums over the bits of the thread's number and of the element's number. Each check
// is a separate constant, because a single constant of all checks is too large for nvcc.
template <int... kThread>
constexpr bool begin_right(std::integer_sequence<int, kThread...>) {
  return (std::bool_constant<is_element(kThread, 0, 0)>::value && ...);
}
template <int... kColumn>
constexpr bool go_on_right(std::integer_sequence<int, kColumn...>) {
  return (std::bool_constant < is_element(0, 0, kColumn) && is_element(0, 1, kColumn) > ::value &&
          ...);
}
static_assert(cute::size(typename Mainloop::TiledMma{}) == ProductTile::kThreads);
static_assert(begin_right(std::integer_sequence<int, 0, 1, 2, 4, 8, 16, 32, 64, 128>()));
static_assert(go_on_right(std::integer_sequence<int, 0, 1, 2, 4, 8, 16, 32>()));

/// Neighbouring tiles share rows of hidden states and ids of the weight in the L2.
constexpr int kTilesTogether = 8;

const char* launch(void* stream, const LaunchProductTiles& tiles) {
  const HeapWatchScope unwatched(nullptr);  // memory of the driver
  const CudaProduct& product = tiles.product;
  const auto rows = static_cast<int>(product.rows);
  const auto columns = static_cast<int>(product.columns);
  const auto size = static_cast<int>(product.size);
  int device = 0;
  int processors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
  if (status != cudaSuccess) return cudaGetErrorString(status);
  Product::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                               {rows, columns, size, 1},
                               {reinterpret_cast<const cutlass::bfloat16_t*>(product.hidden),
                                {product.size, cute::_1{}, 0},
                                reinterpret_cast<const cutlass::bfloat16_t*>(product.weight),
                                {product.size, cute::_1{}, 0}},
                               {product, tiles.out},
                               {device, processors}};
  arguments.scheduler.max_swizzle_size = kTilesTogether;
  Product made;
  cutlass::Status done = Product::can_implement(arguments);
  auto* const of_rank = static_cast<cudaStream_t>(stream);
  if (done == cutlass::Status::kSuccess) done = made.initialize(arguments, nullptr, of_rank);
  if (done == cutlass::Status::kSuccess) done = made.run(of_rank);
  if (done == cutlass::Status::kSuccess) return nullptr;
  cudaGetLastError();  // else the next launch reports this status
  return cutlass::cutlassGetStatusString(done);
}

/// Registers the tiles for GPUs, like OnGpu for kernels of this project.
[[maybe_unused]] const bool named = [] {
  cuda_launch<LaunchProductTiles> = launch;
  return true;
}();

}  // namespace
}  // namespace lossgrid
