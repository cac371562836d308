// SPDX-License-Identifier: Apache-2.0
// Products of matrices on the processor, by oneDNN. No state is kept between calls except oneDNN's
// cache of compiled kernels, which all threads share. Memory that oneDNN takes while it multiplies
// (packed blocks of the factors) is not accounted to a device. A product uses the threads of the
// rank (rank_threads.h).
#include "harness/device/gemm.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>

#include "harness/core/error.h"
#include "harness/core/process/heap_watch.h"

namespace lossgrid {
namespace {

// 4 MiB of float32: in the caches of a server's core, and much longer than a block of oneDNN.
constexpr std::int64_t kPanelFloats = std::int64_t{1} << 20;
constexpr std::int64_t kLeastPanelWidth = 16;  // below it, vectors and registers stay half empty

/// Returns the width of a panel, a range of the longer dimension of n and k.
std::int64_t panel_width(std::int64_t n, std::int64_t k) {
  return std::max(kLeastPanelWidth, kPanelFloats / std::min(n, k));
}

std::int64_t gemm_workspace_floats(DType a, DType b, std::int64_t n, std::int64_t k) {
  if (a != DType::f32 || b != DType::bf16 || n == 0 || k == 0) return 0;
  return std::min(n, k) * std::min(std::max(n, k), panel_width(n, k));
}

bool is_possible(const Gemm& product) {
  const auto& [m, n, k, a, b, c, stride, alpha, accumulate, stream, rounded] = product;
  const bool f32_or_native =
      a.dtype == b.dtype && (a.dtype == DType::f32 || a.dtype == DType::bf16);
  const bool converted = a.dtype == DType::f32 && b.dtype == DType::bf16;
  return rounded == nullptr && m >= 0 && n >= 0 && k >= 0 && (f32_or_native || converted) &&
         a.stride >= (a.transposed ? m : k) && b.stride >= (b.transposed ? k : n) && stride >= n;
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc describe(const Matrix& factor, std::int64_t rows, std::int64_t columns) {
  using Dims = dnnl::memory::dims;
  return {Dims{rows, columns}, dnnl_type(factor.dtype),
          factor.transposed ? Dims{1, factor.stride} : Dims{factor.stride, 1}};
}

void multiply_primitive(const Gemm& product) {
  using dnnl::memory;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc a = describe(product.a, product.m, product.k);
  const memory::desc b = describe(product.b, product.k, product.n);
  const memory::desc c({product.m, product.n}, memory::data_type::f32,
                       memory::dims{product.stride, 1});
  dnnl::primitive_attr attributes;
  if (product.alpha != 1) attributes.set_output_scales(0, {product.alpha});
  if (product.accumulate) {
    dnnl::post_ops accumulation;
    accumulation.append_sum();
    attributes.set_post_ops(accumulation);
  }
  try {
    const dnnl::matmul multiply({{a, b, c}, attributes, engine});
    dnnl::stream stream(engine);
    multiply.execute(stream,
                     {{DNNL_ARG_SRC, memory(a, engine, const_cast<void*>(product.a.data))},
                      {DNNL_ARG_WEIGHTS, memory(b, engine, const_cast<void*>(product.b.data))},
                      {DNNL_ARG_DST, memory(c, engine, product.c)}});
    stream.wait();
  } catch (const dnnl::error& error) {
    throw Error(error.status == dnnl_unimplemented ? ErrorCode::unsupported : ErrorCode::internal,
                fmt::format("product of {} matrices: {}", name(product.a.dtype), error.what()));
  }
}

/// Returns true for large products for which dnnl_sgemm is slow. dnnl_sgemm copies a whole
/// transposed right factor before it starts, which costs up to half of the time with few rows, and
/// falls to half its rate for a transposed left factor with a long sum. The primitive does neither,
/// and is a tenth slower for other products. Compiling a primitive for a shape pays off for large
/// products only.
bool primitive_is_faster(const Gemm& product) {
  constexpr double kLarge = 0x1p26;
  const double multiplications = static_cast<double>(product.m) * static_cast<double>(product.n) *
                                 static_cast<double>(product.k);
  return multiplications >= kLarge &&
         (product.b.transposed || (product.a.transposed && product.k > 1024));
}

void multiply_f32(const Gemm& product) {
  if (primitive_is_faster(product)) return multiply_primitive(product);
  const auto letter = [](const Matrix& factor) { return factor.transposed ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(product.a), letter(product.b), product.m, product.n, product.k,
                 product.alpha, static_cast<const float*>(product.a.data), product.a.stride,
                 static_cast<const float*>(product.b.data), product.b.stride,
                 product.accumulate ? 1.0f : 0.0f, product.c, product.stride);
  if (status != dnnl_success) {
    throw Error(ErrorCode::internal, fmt::format("dnnl_sgemm: {}", dnnl_status2str(status)));
  }
}

/// Converts `from` to `to` [rows, columns] without gaps.
void convert(const bf16* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
             float* to) {
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      to[row * columns + column] = static_cast<float>(from[row * stride + column]);
    }
  }
}

void multiply_converted(const Gemm& whole, float* panel) {
  const bool along_k = whole.k >= whole.n;
  const std::int64_t extent = std::max(whole.n, whole.k);
  const std::int64_t width = panel_width(whole.n, whole.k);
  const bool whole_rows = along_k != whole.b.transposed;  // a panel is whole stored rows of b
  const auto* b = static_cast<const bf16*>(whole.b.data);
  for (std::int64_t begin = 0; begin < extent; begin += width) {
    Gemm part = whole;
    (along_k ? part.k : part.n) = std::min(width, extent - begin);
    const std::int64_t rows = whole.b.transposed ? part.n : part.k;
    const std::int64_t columns = whole.b.transposed ? part.k : part.n;
    convert(b + begin * (whole_rows ? whole.b.stride : 1), whole.b.stride, rows, columns, panel);
    part.b = {DType::f32, panel, columns, whole.b.transposed};
    if (along_k) {
      part.a.data = static_cast<const float*>(whole.a.data) +
                    begin * (whole.a.transposed ? whole.a.stride : 1);
      part.accumulate = whole.accumulate || begin > 0;
    } else {
      part.c += begin;
    }
    multiply_f32(part);
  }
}

void gemm(const Gemm& product, std::span<float> workspace) {
  const std::int64_t needed =
      gemm_workspace_floats(product.a.dtype, product.b.dtype, product.n, product.k);
  if (!is_possible(product) || std::ssize(workspace) < needed) {
    throw Error(
        ErrorCode::internal,
        fmt::format("impossible product: m {} n {} k {}, {} x {}, strides {} {} {}, "
                    "{} floats of workspace for {}",
                    product.m, product.n, product.k, name(product.a.dtype), name(product.b.dtype),
                    product.a.stride, product.b.stride, product.stride, workspace.size(), needed));
  }
  if (product.m == 0 || product.n == 0) return;
  const HeapWatchScope unwatched(nullptr);  // memory of oneDNN
  if (product.k == 0) {                     // an empty sum
    for (std::int64_t row = 0; row < product.m && !product.accumulate; ++row) {
      std::fill_n(product.c + row * product.stride, product.n, 0.0f);
    }
  } else if (product.a.dtype == DType::bf16) {
    multiply_primitive(product);
  } else if (product.b.dtype == DType::bf16) {
    multiply_converted(product, workspace.data());
  } else {
    multiply_f32(product);
  }
}

void add(const float* values, std::int64_t count, float* sum, void* /*stream*/) {
  constexpr std::int64_t kWorthThreads = std::int64_t{1} << 16;
#pragma omp parallel for if (count >= kWorthThreads)
  for (std::int64_t k = 0; k < count; ++k) sum[k] += values[k];
}

}  // namespace

void require_right_result(const Gemm& product) {
  if (product.rounded == nullptr || !product.accumulate) return;
  throw Error(ErrorCode::internal, "a product that is rounded cannot be added to what is there");
}

std::string gemm_library() {
  const dnnl_version_t* version = dnnl_version();
  std::string_view isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  constexpr std::string_view kPrefix = "cpu_isa_";
  if (isa.starts_with(kPrefix)) isa.remove_prefix(kPrefix.size());
  return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch, isa);
}

const KernelTable& cpu_kernels() {
  static constexpr KernelTable kKernels{gemm, gemm_workspace_floats, add};
  return kKernels;
}

}  // namespace lossgrid
