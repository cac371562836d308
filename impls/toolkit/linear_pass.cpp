// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/linear_pass.h"

#include <algorithm>
#include <utility>

#include "harness/device/backend.h"
#include "harness/device/memory/host_view.h"
#include "impls/kernels/hidden_rows.h"
#include "impls/kernels/product_rows.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kBiasFactors = 1;  // products of ones and the bias

std::int64_t workspace_floats(const LossProblem& problem, DType factor) {
  const KernelTable& kernels = kernels_of(problem.backend);
  const std::int64_t width = problem.width();
  const std::int64_t size = problem.head.hidden;
  std::int64_t floats = std::max(kernels.gemm_workspace_floats(factor, problem.dtype, width, size),
                                 kernels.gemm_workspace_floats(factor, problem.dtype, size, width));
  if (problem.head.has_bias) {
    floats =
        std::max(floats, kernels.gemm_workspace_floats(factor, problem.dtype, width, kBiasFactors));
  }
  return floats;
}

/// Returns the distance in elements between rows of a chunk's logits. On GPUs rows begin at
/// multiples of 256 bytes for any vocabulary, so that kernels move 16 bytes at once and cuBLASLt
/// can choose any of its algorithms. Rows have the shard's width with masks or logits of a teacher,
/// whose rows have this width too, and for logits that another strategy takes.
std::int64_t logits_stride(const LossProblem& problem, const LinearOptions& options) {
  constexpr std::int64_t kAligned = 64;
  const bool pads = options.chunked && traits_of(problem.backend).launches_kernels &&
                    !problem.sampling.has_mask && !problem.has_teacher();
  const std::int64_t width = problem.width();
  return pads ? (width + kAligned - 1) / kAligned * kAligned : width;
}

/// Returns the floats of a chunk's tiles.
std::int64_t tile_floats(const LossProblem& problem, const LinearOptions& options) {
  return options.tiles ? product_tile_floats(options.chunk_rows(problem), problem.width()) : 0;
}

}  // namespace

LinearPass::LinearPass(const LossProblem& problem, RankContext context, const Steps& steps,
                       const RowTable& rows, const LinearOptions& options, bool keeps_partial)
    : problem_(problem),
      context_(context),
      steps_(steps),
      rows_(rows),
      size_(problem.head.hidden),
      factor_(options.factor_dtype(problem)),
      shard_(steps.shard_vocab(problem.vocab, problem.grid.tp, context.tp.rank())),
      logits_shard_(shard_),
      chunks_(steps.chunks(problem.local_rows(),
                           std::max<std::int64_t>(1, options.chunk_rows(problem)))) {
  if (options.chunked) {  // else another strategy takes the logits and makes the teacher's
    teacher_.emplace(problem, context, steps, rows, options.chunk_rows(problem));
  }
  logits_shard_.width = logits_stride(problem, options);
  Device& device = context.device;
  const std::int64_t local = problem.local_rows();
  const std::int64_t chunk = options.chunk_rows(problem);
  const std::size_t elements = static_cast<std::size_t>(local * size_);
  if (problem.grid.sp) {
    gathered_ =
        device.allocate(elements * size_of(problem.dtype), "hidden_gathered", MemorySpace::device);
  }
  hidden_ = device.allocate(static_cast<std::size_t>(chunk * size_) * size_of(factor_),
                            "hidden_chunk", MemorySpace::device);
  logits_ = FloatArray(device, chunk * logits_shard_.width, "logits_chunk", MemorySpace::device);
  if (problem.head.has_bias) {
    ones_ = device.allocate(static_cast<std::size_t>(chunk) * size_of(factor_), "ones",
                            MemorySpace::device);
    dispatch_floating(factor_, [&](auto zero) {
      using T = decltype(zero);
      const HostView ones(ones_);
      std::fill_n(ones.as<T>().data(), chunk, T(1.0f));
      ones.write_back();
    });
  }
  source_ = DeviceArray<std::int32_t>(device, static_cast<std::size_t>(local), "row_table");
  workspace_ =
      FloatArray(device, workspace_floats(problem, factor_), "gemm_workspace", MemorySpace::device);
  if (options.tiles) {
    tiles_ =
        FloatArray(device, tile_floats(problem, options), "product_tiles", MemorySpace::device);
  }
  if (has_partial(problem, keeps_partial)) {
    partial_ = FloatArray(device, local * size_, "grad_hidden_partial", MemorySpace::device);
  }
  if (problem.grid.sp && problem.dtype == DType::bf16) {
    own_ = FloatArray(device, problem.hidden_rows() * size_, "grad_hidden_partial",
                      MemorySpace::device);
  }
}

bool LinearPass::has_partial(const LossProblem& problem, bool keeps_partial) {
  return keeps_partial || problem.grid.sp || problem.dtype == DType::bf16;
}

std::int64_t LinearPass::bytes(const LossProblem& problem, const LinearOptions& options,
                               bool keeps_partial) {
  const std::int64_t local = problem.local_rows();
  const std::int64_t size = problem.head.hidden;
  const std::int64_t chunk = options.chunk_rows(problem);
  const DType factor = options.factor_dtype(problem);
  std::int64_t bytes = chunk * size * static_cast<std::int64_t>(size_of(factor)) +
                       kFloatBytes * chunk * logits_stride(problem, options) +
                       kPositionBytes * local + kFloatBytes * workspace_floats(problem, factor) +
                       kFloatBytes * tile_floats(problem, options);
  if (options.chunked) bytes += TeacherProduct::bytes(problem, chunk);
  if (problem.head.has_bias) bytes += chunk * static_cast<std::int64_t>(size_of(factor));
  if (problem.grid.sp) bytes += local * size * problem.element_bytes();
  if (has_partial(problem, keeps_partial)) bytes += kFloatBytes * local * size;
  if (problem.grid.sp && problem.dtype == DType::bf16) {
    bytes += kFloatBytes * problem.hidden_rows() * size;
  }
  return bytes;
}

void LinearPass::add_products(const LossProblem& problem, std::int64_t times, PhaseCost& phase) {
  for (std::int64_t k = 0; k < times; ++k) {
    phase.flops += product_flops(problem);
    TeacherProduct::add_flops(problem, problem.local_rows(), phase);
  }
}

std::int64_t LinearPass::product_flops(const LossProblem& problem) {
  return grad_hidden_flops(problem) + 2 * problem.local_rows() * problem.bias_elements();
}

std::int64_t LinearPass::grad_hidden_flops(const LossProblem& problem) {
  return 2 * problem.local_rows() * problem.weight_elements();
}

void LinearPass::add_gather(const LossProblem& problem, CollectiveCounts& tp) {
  if (problem.grid.sp) tp.add(Collective::all_gather, 1, problem.hidden_bytes());
}

void LinearPass::add_reduction(const LossProblem& problem, CollectiveCounts& tp) {
  if (problem.vocab_ranks() < problem.grid.tp) return;  // every rank already has the sum
  const Collective operation =
      problem.grid.sp ? Collective::reduce_scatter : Collective::all_reduce;
  tp.add(operation, 1, kFloatBytes * problem.local_rows() * problem.head.hidden);
}

void LinearPass::gather(const LossInputs& inputs) {
  weight_ = inputs.weight;
  all_hidden_ = inputs.hidden;
  inputs_ = inputs;
  if (teacher_) teacher_->gather(inputs);
  if (!problem_.grid.sp) return;
  const auto elements = static_cast<std::size_t>(problem_.hidden_rows() * size_);
  context_.tp.all_gather(inputs.hidden, gathered_.data(), elements, problem_.dtype);
  all_hidden_ = gathered_.data();
}

void LinearPass::copy_rows(const RowRange& chunk, Read read) {
  // Each chunk has its own slots, because kernels may still read the slots of the previous chunk.
  const std::span<std::int32_t> source(source_.data() + chunk.begin,
                                       static_cast<std::size_t>(chunk.count));
  steps_.chunk_source(problem_, chunk, context_.tp.rank(), source);
  for (std::int64_t k = 0; k < chunk.count; ++k) {
    const std::int64_t row = chunk.begin + k;
    const bool wanted = read == Read::valid ? rows_.valid()[row] != 0 : rows_.targets()[row] >= 0;
    if (!wanted) source[static_cast<std::size_t>(k)] = -1;
  }
  gather_rows(context_.device, {problem_.dtype, all_hidden_, source.data(), factor_, hidden_.data(),
                                chunk.count, size_});
}

std::int64_t LinearPass::run_statistics(ShardStatistics& statistics, const TokenOutputs& out) {
  std::int64_t owned = 0;
  statistics.select(0, rows_.rows());
  if (problem_.has_teacher()) {
    // Divergences need merged statistics while the logits of the chunk exist.
    for (const RowRange& chunk : chunks_) {
      statistics.select(chunk.begin, chunk.count);
      owned += statistics.run(steps_, context_.tp, logits(chunk, Read::predicting),
                              out.part(chunk.begin, chunk.count));
    }
    return owned;
  }
  for (const RowRange& chunk : chunks_) {
    owned += tiles_.data() != nullptr
                 ? add_tiles(chunk, statistics)
                 : statistics.add(steps_, logits(chunk, Read::predicting), chunk.begin);
  }
  statistics.merge(steps_, context_.tp, rows_.targets());
  statistics.write(steps_, rows_.targets(), out);
  return owned;
}

std::int64_t LinearPass::add_tiles(const RowRange& chunk, ShardStatistics& statistics) {
  copy_rows(chunk, Read::predicting);
  const ProductRows rows{.device = context_.device,
                         .hidden_dtype = factor_,
                         .hidden = hidden_.data(),
                         .weight = static_cast<const bf16*>(weight_),
                         .rows = chunk.count,
                         .size = size_,
                         .alpha = static_cast<float>(problem_.product_alpha()),
                         .shard = shard_,
                         .targets = rows_.targets().from(chunk.begin),
                         .valid = rows_.valid() + chunk.begin};
  return product_statistics(rows, tiles_.data(), statistics.own(chunk.begin));
}

Matrix LinearPass::hidden_factor(bool transposed) const {
  return {factor_, hidden_.data(), size_, transposed};
}

Matrix LinearPass::gradient_factor(bool transposed) {
  const std::int64_t width = logits_shard_.width;
  const std::int64_t stride = factor_ == DType::bf16 ? 2 * width : width;
  return {factor_, logits_.data(), stride, transposed};
}

Gemm LinearPass::product(std::int64_t m, std::int64_t n, std::int64_t k) const {
  Gemm product{};
  product.m = m;
  product.n = n;
  product.k = k;
  product.alpha = static_cast<float>(problem_.product_alpha());
  product.stream = context_.device.stream();
  return product;
}

void LinearPass::write_bias(const RowRange& chunk) {
  Gemm rows = product(chunk.count, shard_.valid(), kBiasFactors);
  rows.a = {factor_, ones_.data(), kBiasFactors};
  rows.b = {problem_.dtype, inputs_.bias, shard_.width};
  rows.c = logits_.data();
  rows.stride = logits_shard_.width;
  steps_.write_bias(context_, rows, workspace_.span());
}

void LinearPass::add_grad_bias(const RowRange& chunk, float* grad_bias, bool accumulate) {
  Gemm sums = product(kBiasFactors, shard_.valid(), chunk.count);
  sums.a = {factor_, ones_.data(), chunk.count};
  sums.b = gradient_factor(false);
  sums.c = grad_bias;
  sums.stride = shard_.width;
  sums.accumulate = accumulate;
  steps_.add_grad_bias(context_, sums, workspace_.span());
}

LogitsRows LinearPass::logits(const RowRange& chunk, Read read) {
  copy_rows(chunk, read);
  const bool by_id = problem_.head.layout == WeightLayout::vocab_hidden;
  Gemm z = product(chunk.count, shard_.valid(), size_);
  z.a = hidden_factor(false);
  z.b = {problem_.dtype, weight_, by_id ? size_ : shard_.width, by_id};
  z.c = logits_.data();
  z.stride = logits_shard_.width;
  if (problem_.head.has_bias) {
    write_bias(chunk);
    z.accumulate = true;
  }
  context_.device.kernels().gemm(z, workspace_.span());
  LogitsRows made{.dtype = DType::f32,
                  .data = logits_.data(),
                  .rows = chunk.count,
                  .shard = logits_shard_,
                  .targets = rows_.targets().from(chunk.begin),
                  .valid = rows_.valid() + chunk.begin,
                  .device = &context_.device,
                  .vocab = problem_.vocab,
                  .transforms = rows_.transforms(chunk.begin)};
  add_teacher(problem_, inputs_, rows_, chunk.begin, made);
  if (teacher_) teacher_->make(chunk.begin, made);
  add_mask(problem_, inputs_, chunk.begin, made);
  return made;
}

void LinearPass::write_gradient(const LogitsRows& made, const RowSoftmax& softmax,
                                const RowGradients& gradients) {
  is_rounded_ = factor_ == DType::bf16 && steps_.gradient == rows_gradient;
  if (is_rounded_) return rows_gradient_rounded(made, softmax, gradients, logits_.data());
  steps_.gradient(made, softmax, gradients, logits_.data());
}

RowSoftmax LinearPass::chunk_softmax(const RowRange& chunk, ShardStatistics& statistics) const {
  if (!problem_.has_teacher()) return statistics.softmax().from(chunk.begin);
  statistics.select(chunk.begin, chunk.count);
  return statistics.softmax();
}

std::int64_t LinearPass::merges(const LossProblem& problem, const LinearOptions& options) {
  return problem.has_teacher() ? options.chunks(problem) : 1;
}

std::span<float> LinearPass::partial(void* grad_hidden) {
  if (partial_.span().empty()) {
    return {static_cast<float*>(grad_hidden),
            static_cast<std::size_t>(problem_.local_rows() * size_)};
  }
  return partial_.span();
}

void LinearPass::add_gradients(const RowRange& chunk, const HeadGradients& head, bool accumulate,
                               void* grad_hidden) {
  const bool by_id = problem_.head.layout == WeightLayout::vocab_hidden;
  if (factor_ == DType::bf16 && !std::exchange(is_rounded_, false)) {
    round_rows(context_.device, logits_.data(), chunk.count, logits_shard_.width);
  }
  Gemm dx = product(chunk.count, size_, shard_.valid());
  dx.a = gradient_factor(false);
  dx.b = {problem_.dtype, weight_, by_id ? size_ : shard_.width, !by_id};
  dx.c = partial(grad_hidden).data() + chunk.begin * size_;
  dx.stride = size_;
  context_.device.kernels().gemm(dx, workspace_.span());

  // Zero times a poisoned row is not zero.
  clear_rows(context_.device, factor_, hidden_.data(), rows_.valid() + chunk.begin, chunk.count,
             size_);
  Gemm dw = by_id ? product(shard_.valid(), size_, chunk.count)
                  : product(size_, shard_.valid(), chunk.count);
  dw.a = by_id ? gradient_factor(true) : hidden_factor(true);
  dw.b = by_id ? hidden_factor(false) : gradient_factor(false);
  dw.c = head.weight;
  dw.stride = by_id ? size_ : shard_.width;
  dw.accumulate = accumulate;
  steps_.add_grad_weight(context_.device, dw, workspace_.span());
  if (problem_.head.has_bias) add_grad_bias(chunk, head.bias, accumulate);
}

void LinearPass::add_kept(const HeadGradients& kept, const HeadGradients& head) const {
  const KernelTable& kernels = context_.device.kernels();
  if (problem_.head.has_bias) {
    kernels.add(kept.bias, shard_.valid(), head.bias, context_.device.stream());
  }
  const bool is_whole = shard_.valid() == shard_.width;  // no padding ids between the ids
  if (problem_.head.layout == WeightLayout::vocab_hidden || is_whole) {
    kernels.add(kept.weight, shard_.valid() * size_, head.weight, context_.device.stream());
    return;
  }
  for (std::int64_t h = 0; h < size_; ++h) {
    kernels.add(kept.weight + h * shard_.width, shard_.valid(), head.weight + h * shard_.width,
                context_.device.stream());
  }
}

void LinearPass::write_hidden(void* grad_hidden) {
  const std::span<float> sums = partial(grad_hidden);
  const auto own_elements = static_cast<std::size_t>(problem_.hidden_rows() * size_);
  const bool rounds = problem_.dtype == DType::bf16;
  std::span<float> own;  // with SP: destination of the sum of the own rows
  if (problem_.grid.sp) {
    own = rounds ? own_.span() : std::span<float>(static_cast<float*>(grad_hidden), own_elements);
  }
  const bool is_shared = problem_.vocab_ranks() < problem_.grid.tp;
  const auto reduce = is_shared ? steps_.share_grad_hidden : steps_.reduce_grad_hidden;
  reduce(context_.device, context_.tp, problem_.grid.sp, sums, own);
  const std::span<const float> result = problem_.grid.sp ? own : sums;
  if (result.data() == grad_hidden) return;
  write_floats(context_.device, result.data(), problem_.dtype, grad_hidden,
               static_cast<std::int64_t>(own_elements));
}

}  // namespace lossgrid
