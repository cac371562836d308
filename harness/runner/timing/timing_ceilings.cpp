// SPDX-License-Identifier: Apache-2.0
// Products have the shapes, the layout and the dtypes that implementations use. Their factors are
// random numbers: a processor draws less power, and may run faster, where all are the same. Bytes
// of copy and update are those read and those written.
#include "harness/runner/timing/timing_ceilings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/core/philox.h"
#include "harness/device/backend.h"
#include "harness/device/gemm.h"
#include "harness/measure/device_memory.h"

namespace lossgrid {
namespace {

/// Returns the dtype of the factor beside the weight: bf16 where native products are faster than
/// converting, as they are on a GPU.
DType factor_dtype(const LossProblem& problem) {
  if (problem.dtype != DType::bf16) return DType::f32;
  const bool native =
      !traits_of(problem.backend).has_bf16_choice || bf16_gemm_rates().faster() == Bf16Gemm::native;
  return native ? DType::bf16 : DType::f32;
}

constexpr std::array kMemoryKernels{MemoryKernel::read, MemoryKernel::copy, MemoryKernel::update};

class MemoryCeiling final : public SampledItem {
 public:
  MemoryCeiling(MemoryKernel kernel, const void* from, void* to, std::int64_t bytes,
                std::shared_ptr<DeviceMemory> memory, Backend backend)
      : kernel_(kernel),
        variants_(variants_of(kernel, backend)),
        from_(from),
        to_(to),
        bytes_(bytes),
        memory_(std::move(memory)) {}
  std::size_t steps() const override { return variants_.size(); }
  void prepare(std::size_t /*step*/, bool /*last*/) override {}
  void run(std::size_t step) override {
    memory_->run(kernel_, variants_[step], from_, to_, bytes_);
  }

 private:
  MemoryKernel kernel_;
  std::span<const MemoryVariant> variants_;
  const void* from_;
  void* to_;
  std::int64_t bytes_;
  std::shared_ptr<DeviceMemory> memory_;
};

/// Sizes of the products that are timed together.
struct ProductSet {
  std::int64_t rows = 0;
  bool rounds = false;  // results are rounded to bf16
};

/// Returns the sets of products: those of a chunk of rows with float32 results, and on a GPU in
/// bf16 those of many rows with bf16 results.
std::vector<ProductSet> product_sets(const LossProblem& problem, std::int64_t product_rows) {
  constexpr std::int64_t kManyRows = 8192;  // 4 GiB of factor and result with 131,072 ids
  std::vector<ProductSet> sets{{product_rows, false}};
  if (problem.dtype == DType::bf16 && traits_of(problem.backend).launches_kernels) {
    sets.push_back({std::min(problem.local_rows(), kManyRows), true});
  }
  return sets;
}

/// Returns the elements of the largest of the three results.
std::int64_t largest_result(const LossProblem& problem, std::int64_t rows) {
  return std::max(rows * std::max(problem.width(), problem.head.hidden),
                  problem.width() * problem.head.hidden);
}

/// Returns the workspace of the largest product.
std::int64_t workspace_floats(const LossProblem& problem, std::int64_t product_rows) {
  const std::int64_t widest = std::max(problem.width(), problem.head.hidden);
  const std::int64_t deepest = std::max(widest, product_rows);
  return kernels_of(problem.backend)
      .gemm_workspace_floats(factor_dtype(problem), problem.dtype, widest, deepest);
}

/// Factors and results of three products of a set.
struct ProductBuffers {
  ProductBuffers(const LossProblem& problem, const ProductSet& set, Device& device)
      : rows(set.rows),
        factor(factor_dtype(problem)),
        hidden(filled(device, rows * problem.head.hidden, "gemm_hidden")),
        grad_logits(filled(device, rows * problem.width(), "gemm_grad_logits")),
        workspace(device, static_cast<std::size_t>(workspace_floats(problem, set.rows)),
                  "gemm_workspace", MemorySpace::device) {
    const auto results = [&]<typename T>(DeviceArray<T>& array, std::int64_t elements,
                                         const char* tag) {
      array = DeviceArray<T>(device, static_cast<std::size_t>(elements), tag, MemorySpace::device);
    };
    if (set.rounds) {
      results(rounded, largest_result(problem, rows), "gemm_rounded");
    } else {
      results(logits, rows * problem.width(), "gemm_logits");
      results(grad_hidden, rows * problem.head.hidden, "gemm_grad_hidden");
    }
  }

  /// Allocates a buffer of random numbers that repeat with a period.
  Buffer filled(Device& device, std::int64_t elements, const std::string& tag) const {
    constexpr std::int64_t kPeriod = (std::int64_t{1} << 16) + 4;  // not the size of a row
    constexpr float kScale = 0x1p-6F;
    const RandomStream random(0, 0x47454D4D);
    Buffer buffer = device.allocate(static_cast<std::size_t>(elements) * size_of(factor), tag,
                                    MemorySpace::device);
    dispatch_floating(factor, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> values;
      for (std::uint32_t k = 0; std::ssize(values) < std::min(elements, kPeriod); ++k) {
        for (const float x : random.normals(0, k)) values.push_back(static_cast<T>(kScale * x));
      }
      for (std::int64_t begin = 0; begin < elements; begin += kPeriod) {
        const auto count = static_cast<std::size_t>(std::min(elements - begin, kPeriod));
        device.copy(reinterpret_cast<T*>(buffer.data()) + begin, values.data(), count * sizeof(T));
      }
    });
    return buffer;
  }

  std::int64_t rows;
  DType factor;
  Buffer hidden;       // [rows, H]
  Buffer grad_logits;  // [rows, V_t]
  DeviceArray<float> workspace;
  DeviceArray<float> logits;
  DeviceArray<float> grad_hidden;
  DeviceArray<bf16> rounded;  // of all three, in place of these
};

class ProductCeiling final : public SampledItem {
 public:
  ProductCeiling(const Gemm& product, std::shared_ptr<ProductBuffers> buffers, Device& device)
      : product_(product), buffers_(std::move(buffers)), kernels_(device.kernels()) {
    product_.stream = device.stream();
  }
  std::size_t steps() const override { return 1; }
  void prepare(std::size_t /*step*/, bool /*last*/) override {}
  void run(std::size_t /*step*/) override {
    kernels_.gemm(product_, {buffers_->workspace.data(), buffers_->workspace.size()});
  }

 private:
  Gemm product_;
  std::shared_ptr<ProductBuffers> buffers_;
  const KernelTable& kernels_;
};

/// logits = hidden W^T; d hidden = d logits W; d weight += d logits^T hidden, which only float32
/// adds up.
std::vector<Gemm> products_of(const LossProblem& problem, ProductBuffers& buffers,
                              const LossInputs& inputs, const LossGradients& gradients) {
  const std::int64_t m = buffers.rows;
  const std::int64_t v = problem.width();
  const std::int64_t h = problem.head.hidden;
  const bool by_id = problem.head.layout == WeightLayout::vocab_hidden;
  const std::int64_t weight_stride = by_id ? h : v;
  const Matrix hidden{buffers.factor, buffers.hidden.data(), h, !by_id};
  const Matrix grad_logits{buffers.factor, buffers.grad_logits.data(), v, by_id};
  const Gemm logits{.m = m,
                    .n = v,
                    .k = h,
                    .a = {buffers.factor, buffers.hidden.data(), h},
                    .b = {problem.dtype, inputs.weight, weight_stride, by_id},
                    .c = buffers.logits.data(),
                    .stride = v};
  const Gemm grad_hidden{.m = m,
                         .n = h,
                         .k = v,
                         .a = {buffers.factor, buffers.grad_logits.data(), v},
                         .b = {problem.dtype, inputs.weight, weight_stride, !by_id},
                         .c = buffers.grad_hidden.data(),
                         .stride = h};
  const Gemm grad_weight{.m = by_id ? v : h,
                         .n = by_id ? h : v,
                         .k = m,
                         .a = by_id ? grad_logits : hidden,
                         .b = by_id ? hidden : grad_logits,
                         .c = gradients.weight,
                         .stride = weight_stride,
                         .accumulate = true};
  std::vector<Gemm> products{logits, grad_hidden, grad_weight};
  if (buffers.rounded.size() == 0) return products;
  for (Gemm& product : products) {
    product.c = nullptr;
    product.rounded = buffers.rounded.data();
    product.accumulate = false;
  }
  return products;
}

}  // namespace

std::vector<Ceiling> ceilings_of(const LossProblem& problem, std::int64_t product_rows) {
  if (problem.from_hidden()) {
    std::vector<Ceiling> products;
    for (const ProductSet& set : product_sets(problem, product_rows)) {
      const std::int64_t flops = 2 * set.rows * problem.width() * problem.head.hidden;
      for (const char* name : {"gemm_logits", "gemm_hidden", "gemm_weight"}) {
        products.push_back({std::string(name) + (set.rounds ? "_bf16" : ""),
                            0,
                            flops,
                            {traits_of(problem.backend).gemm_library()}});
      }
    }
    return products;
  }
  std::vector<Ceiling> ceilings;
  for (const MemoryKernel kernel : kMemoryKernels) {
    const std::int64_t passes = kernel == MemoryKernel::read ? 1 : 2;
    Ceiling ceiling{std::string(name(kernel)), passes * problem.logits_bytes(), 0, {}};
    for (const MemoryVariant variant : variants_of(kernel, problem.backend)) {
      ceiling.variants.emplace_back(name(variant));
    }
    ceilings.push_back(std::move(ceiling));
  }
  return ceilings;
}

std::int64_t ceiling_memory_bytes(const LossProblem& problem, std::int64_t product_rows) {
  if (!problem.from_hidden()) {
    return DeviceMemory::memory_bytes(problem.logits_bytes(), problem.backend);
  }
  std::int64_t bytes = 0;
  for (const ProductSet& set : product_sets(problem, product_rows)) {
    const std::int64_t factors = set.rows * (problem.width() + problem.head.hidden);
    bytes += factors * static_cast<std::int64_t>(size_of(factor_dtype(problem))) +
             4 * workspace_floats(problem, set.rows) +
             (set.rounds ? 2 * largest_result(problem, set.rows) : 4 * factors);
  }
  return bytes;
}

std::vector<std::unique_ptr<SampledItem>> make_ceiling_items(const LossProblem& problem,
                                                             std::int64_t product_rows,
                                                             Device& device,
                                                             const LossInputs& inputs,
                                                             const LossGradients& gradients) {
  std::vector<std::unique_ptr<SampledItem>> items;
  if (problem.from_hidden()) {
    for (const ProductSet& set : product_sets(problem, product_rows)) {
      auto buffers = std::make_shared<ProductBuffers>(problem, set, device);
      for (const Gemm& product : products_of(problem, *buffers, inputs, gradients)) {
        items.push_back(std::make_unique<ProductCeiling>(product, buffers, device));
      }
    }
    return items;
  }
  const auto memory = std::make_shared<DeviceMemory>(device, problem.logits_bytes());
  for (const MemoryKernel kernel : kMemoryKernels) {
    items.push_back(std::make_unique<MemoryCeiling>(
        kernel, inputs.logits, gradients.logits, problem.logits_bytes(), memory, device.backend()));
  }
  return items;
}

}  // namespace lossgrid
