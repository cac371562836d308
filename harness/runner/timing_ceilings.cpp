// SPDX-License-Identifier: Apache-2.0
// Products have the shapes, the layout and the dtypes that implementations use; the values do not
// matter. Bytes of copy and update count what is read and what is written.
#include "harness/runner/timing_ceilings.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "harness/device/gemm.h"
#include "harness/measure/memory_kernels.h"

namespace lossgrid {
namespace {

/// A factor of products beside the weight: bf16 where native products are faster than converting.
DType factor_dtype(const LossProblem& problem) {
  const bool native =
      problem.dtype == DType::bf16 && bf16_gemm_rates().faster() == Bf16Gemm::native;
  return native ? DType::bf16 : DType::f32;
}

constexpr std::array kMemoryKernels{MemoryKernel::read, MemoryKernel::copy, MemoryKernel::update};

class MemoryCeiling final : public SampledItem {
 public:
  MemoryCeiling(MemoryKernel kernel, const void* from, void* to, std::int64_t bytes)
      : kernel_(kernel), from_(from), to_(to), bytes_(static_cast<std::size_t>(bytes)) {}
  std::size_t steps() const override { return variants_of(kernel_).size(); }
  void prepare(std::size_t /*step*/, bool /*last*/) override {}
  void run(std::size_t step) override {
    run_memory_kernel(kernel_, variants_of(kernel_)[step], from_, to_, bytes_);
  }

 private:
  MemoryKernel kernel_;
  const void* from_;
  void* to_;
  std::size_t bytes_;
};

/// Factors and results of the products; one set for the three items.
struct ProductBuffers {
  ProductBuffers(const LossProblem& problem, std::int64_t product_rows, Device& device)
      : rows(product_rows),
        factor(factor_dtype(problem)),
        hidden(filled(device, rows * problem.head.hidden, "gemm_hidden")),
        grad_logits(filled(device, rows * problem.width(), "gemm_grad_logits")),
        logits(device, static_cast<std::size_t>(rows * problem.width()), "gemm_logits"),
        grad_hidden(device, static_cast<std::size_t>(rows * problem.head.hidden),
                    "gemm_grad_hidden") {
    const std::int64_t widest = std::max(problem.width(), problem.head.hidden);
    const std::int64_t deepest = std::max({problem.width(), problem.head.hidden, rows});
    const std::int64_t floats =
        device.kernels().gemm_workspace_floats(factor, problem.dtype, widest, deepest);
    workspace = DeviceArray<float>(device, static_cast<std::size_t>(floats), "gemm_workspace");
  }

  Buffer filled(Device& device, std::int64_t elements, const std::string& tag) const {
    constexpr float kValue = 0x1p-6F;
    Buffer buffer = device.allocate(static_cast<std::size_t>(elements) * size_of(factor), tag);
    dispatch_floating(factor, [&](auto zero) {
      for (auto& x : buffer.as<decltype(zero)>()) x = static_cast<decltype(zero)>(kValue);
    });
    return buffer;
  }

  std::int64_t rows;
  DType factor;
  Buffer hidden;       // [rows, H]
  Buffer grad_logits;  // [rows, V_t]
  DeviceArray<float> logits;
  DeviceArray<float> grad_hidden;
  DeviceArray<float> workspace;
};

class ProductCeiling final : public SampledItem {
 public:
  ProductCeiling(const Gemm& product, std::shared_ptr<ProductBuffers> buffers, Device& device)
      : product_(product), buffers_(std::move(buffers)), kernels_(device.kernels()) {}
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

/// logits = hidden W^T; d hidden = d logits W; d weight += d logits^T hidden.
std::vector<Gemm> products_of(const LossProblem& problem, ProductBuffers& buffers,
                              const LossInputs& inputs, const LossGradients& gradients) {
  const std::int64_t m = buffers.rows;
  const std::int64_t v = problem.width();
  const std::int64_t h = problem.head.hidden;
  const bool by_id = problem.head.layout == WeightLayout::vocab_hidden;
  const std::int64_t weight_stride = by_id ? h : v;
  const Matrix hidden{buffers.factor, buffers.hidden.data(), h, !by_id};
  const Matrix grad_logits{buffers.factor, buffers.grad_logits.data(), v, by_id};
  const Gemm logits{m,
                    v,
                    h,
                    {buffers.factor, buffers.hidden.data(), h},
                    {problem.dtype, inputs.weight, weight_stride, by_id},
                    buffers.logits.data(),
                    v};
  const Gemm grad_hidden{m,
                         h,
                         v,
                         {buffers.factor, buffers.grad_logits.data(), v},
                         {problem.dtype, inputs.weight, weight_stride, !by_id},
                         buffers.grad_hidden.data(),
                         h};
  Gemm grad_weight{by_id ? v : h,
                   by_id ? h : v,
                   m,
                   by_id ? grad_logits : hidden,
                   by_id ? hidden : grad_logits,
                   gradients.weight,
                   weight_stride};
  grad_weight.accumulate = true;
  return {logits, grad_hidden, grad_weight};
}

}  // namespace

std::vector<Ceiling> ceilings_of(const LossProblem& problem, std::int64_t product_rows) {
  if (problem.from_hidden()) {
    const std::int64_t flops = 2 * product_rows * problem.width() * problem.head.hidden;
    const std::vector<std::string> one_way{gemm_library()};
    return {{"gemm_logits", 0, flops, one_way},
            {"gemm_hidden", 0, flops, one_way},
            {"gemm_weight", 0, flops, one_way}};
  }
  std::vector<Ceiling> ceilings;
  for (const MemoryKernel kernel : kMemoryKernels) {
    const std::int64_t passes = kernel == MemoryKernel::read ? 1 : 2;
    Ceiling ceiling{std::string(name(kernel)), passes * problem.logits_bytes(), 0, {}};
    for (const MemoryVariant variant : variants_of(kernel)) {
      ceiling.variants.emplace_back(name(variant));
    }
    ceilings.push_back(std::move(ceiling));
  }
  return ceilings;
}

std::int64_t ceiling_memory_bytes(const LossProblem& problem, std::int64_t product_rows) {
  if (!problem.from_hidden()) return 0;
  const std::int64_t elements = product_rows * (problem.width() + problem.head.hidden);
  const std::int64_t workspace = problem.weight_elements() * 4;  // at most the size of a factor
  return elements * (4 + static_cast<std::int64_t>(size_of(factor_dtype(problem)))) + workspace;
}

std::vector<std::unique_ptr<SampledItem>> make_ceiling_items(const LossProblem& problem,
                                                             std::int64_t product_rows,
                                                             Device& device,
                                                             const LossInputs& inputs,
                                                             const LossGradients& gradients) {
  std::vector<std::unique_ptr<SampledItem>> items;
  if (problem.from_hidden()) {
    auto buffers = std::make_shared<ProductBuffers>(problem, product_rows, device);
    for (const Gemm& product : products_of(problem, *buffers, inputs, gradients)) {
      items.push_back(std::make_unique<ProductCeiling>(product, buffers, device));
    }
    return items;
  }
  for (const MemoryKernel kernel : kMemoryKernels) {
    items.push_back(std::make_unique<MemoryCeiling>(kernel, inputs.logits, gradients.logits,
                                                    problem.logits_bytes()));
  }
  return items;
}

}  // namespace lossgrid
