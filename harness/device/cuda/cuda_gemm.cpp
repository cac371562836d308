// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt, float32 accumulation without TF32. The library is column-major: a row-major
// c = a b is c^T = b^T a^T there.
#include <map>
#include <memory>
#include <mutex>

#include <cuda_runtime.h>

#include "harness/core/error.h"
#include "harness/core/process/heap_watch.h"
#include "harness/device/cuda/cublas_lt.h"
#include "harness/device/cuda/cuda_call.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/device_work.h"

namespace lossgrid {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const char* error = cublas_lt().status_string(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw Error(ErrorCode::not_enough_memory, fmt::format("{}: {}", what, error));
  }
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
    throw Error(ErrorCode::unsupported, fmt::format("{}: {}", what, error));
  }
  throw_cuda_failure(what, error);
}

/// Returns the handle of the current device. Ranks share it: the library is thread-safe.
cublasLtHandle_t handle() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;  // never destroyed: CUDA may be gone by then
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& own = handles[device];
  if (own == nullptr) check(cublas_lt().create(&own), "cublasLtCreate");
  return own;
}

cudaDataType cuda_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

template <typename T>
using Handle = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

/// Returns the layout of a row-major matrix, of which the column-major library sees the transpose.
Handle<cublasLtMatrixLayout_t> layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                      std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublas_lt().create_layout(&made, cuda_type(dtype), static_cast<std::uint64_t>(columns),
                                  static_cast<std::uint64_t>(rows), stride),
        "cublasLtMatrixLayoutCreate");
  return {made, cublas_lt().destroy_layout};
}

/// Returns the layout of M, where op(M) is [rows, columns].
Handle<cublasLtMatrixLayout_t> factor_layout(const Matrix& factor, std::int64_t rows,
                                             std::int64_t columns) {
  return factor.transposed ? layout(factor.dtype, columns, rows, factor.stride)
                           : layout(factor.dtype, rows, columns, factor.stride);
}

Handle<cublasLtMatmulDesc_t> describe(const Gemm& product) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublas_lt().create_product(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Handle<cublasLtMatmulDesc_t> description{made, cublas_lt().destroy_product};
  const auto set = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas_lt().set_product(made, which, &operation, sizeof(operation)),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed);
  return description;
}

/// Returns the alignment of an address, up to the largest that the library uses.
std::uint32_t alignment(const void* data) {
  constexpr std::uintptr_t kMost = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(data) | kMost;
  return static_cast<std::uint32_t>(address & -address);
}

void* result_data(const Gemm& product) {
  return product.rounded != nullptr ? static_cast<void*>(product.rounded) : product.c;
}

DType result_dtype(const Gemm& product) {
  return product.rounded != nullptr ? DType::bf16 : DType::f32;
}

/// Returns the limits on an algorithm: its workspace and the alignment of its operands.
Handle<cublasLtMatmulPreference_t> prefer(const Gemm& product, std::size_t workspace_bytes) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublas_lt().create_preference(&made), "cublasLtMatmulPreferenceCreate");
  Handle<cublasLtMatmulPreference_t> preference{made, cublas_lt().destroy_preference};
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    check(cublas_lt().set_preference(made, which, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(result_data(product)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(result_data(product)));
  return preference;
}

void multiply(const Gemm& product, std::span<float> workspace) {
  const CublasLt& lt = cublas_lt();
  const auto description = describe(product);
  const auto left = factor_layout(product.b, product.k, product.n);
  const auto right = factor_layout(product.a, product.m, product.k);
  void* const sums = result_data(product);
  const auto result = layout(result_dtype(product), product.m, product.n, product.stride);
  const auto preference = prefer(product, workspace.size_bytes());
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasLtHandle_t library = handle();
  check(lt.find_algorithm(library, description.get(), left.get(), right.get(), result.get(),
                          result.get(), preference.get(), 1, &found, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  const float beta = product.accumulate ? 1.0f : 0.0f;
  auto* stream = static_cast<cudaStream_t>(product.stream);
  check(lt.multiply(library, description.get(), &product.alpha, product.b.data, left.get(),
                    product.a.data, right.get(), &beta, sums, result.get(), sums, result.get(),
                    &found.algo, workspace.data(), workspace.size_bytes(), stream),
        "cublasLtMatmul");
}

/// Writes the result of an empty sum.
void clear(const Gemm& product) {
  const std::size_t element_bytes = size_of(result_dtype(product));
  const auto row_bytes = static_cast<std::size_t>(product.n) * element_bytes;
  auto* stream = static_cast<cudaStream_t>(product.stream);
  check_cuda(cudaMemset2DAsync(result_data(product),
                               static_cast<std::size_t>(product.stride) * element_bytes, 0,
                               row_bytes, static_cast<std::size_t>(product.m), stream),
             "cudaMemset2DAsync");
}

void gemm(const Gemm& product, std::span<float> workspace) {
  if (product.a.dtype != product.b.dtype ||
      (product.a.dtype != DType::f32 && product.a.dtype != DType::bf16)) {
    throw Error(ErrorCode::internal, fmt::format("impossible product on a GPU: {} x {}",
                                                 name(product.a.dtype), name(product.b.dtype)));
  }
  require_right_result(product);
  if (product.m == 0 || product.n == 0) return;
  const HeapWatchScope unwatched(nullptr);  // memory of cuBLASLt and the driver
  count_launch();
  device_work().flops += product.flops();
  if (product.k > 0) return multiply(product, workspace);
  if (!product.accumulate) clear(product);
}

/// Returns 32 MiB, as NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace).
std::int64_t gemm_workspace_floats(DType /*a*/, DType /*b*/, std::int64_t /*n*/,
                                   std::int64_t /*k*/) {
  return std::int64_t{8} << 20;
}

void add(const float* values, std::int64_t count, float* sum, void* stream) {
  const HeapWatchScope unwatched(nullptr);  // the driver's own
  count_launch();
  const char* error = cuda_add(values, count, sum, stream);
  if (error != nullptr) throw_cuda_failure("CUDA kernel add", error);
}

}  // namespace

const KernelTable& cuda_kernels() {
  static constexpr KernelTable kKernels{gemm, gemm_workspace_floats, add};
  return kKernels;
}

}  // namespace lossgrid
