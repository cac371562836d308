// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/teacher_product.h"

#include <algorithm>

#include "harness/device/backend.h"
#include "impls/kernels/hidden_rows.h"
#include "impls/toolkit/product_factor.h"

namespace lossgrid {
namespace {

DType teacher_factor_dtype(const LossProblem& problem) {
  return product_factor_dtype(problem.teacher.dtype, problem.backend);
}

std::int64_t product_workspace(const LossProblem& problem) {
  return kernels_of(problem.backend)
      .gemm_workspace_floats(teacher_factor_dtype(problem), problem.teacher.dtype, problem.width(),
                             problem.teacher.hidden);
}

/// Returns the rows of the table.
std::int64_t all_rows(const LossProblem& problem, bool over_cp) {
  return over_cp ? problem.rows() : problem.local_rows();
}

std::int64_t over_tp_bytes(const LossProblem& problem) {
  return problem.grid.sp ? problem.teacher_hidden_bytes() * problem.grid.row_parts() : 0;
}

std::int64_t over_all_bytes(const LossProblem& problem, bool over_cp) {
  const bool gathers = over_cp && problem.grid.cp > 1;
  return gathers ? problem.teacher_hidden_bytes() * problem.grid.row_parts() * problem.grid.cp : 0;
}

std::int64_t chunk_bytes(const LossProblem& problem, std::int64_t capacity) {
  return capacity * problem.teacher.hidden *
         static_cast<std::int64_t>(size_of(teacher_factor_dtype(problem)));
}

Buffer device_buffer(Device& device, std::int64_t bytes, const char* tag) {
  return device.allocate(static_cast<std::size_t>(bytes), tag, MemorySpace::device);
}

}  // namespace

class TeacherProduct::Maker {
 public:
  Maker(const LossProblem& problem, RankContext context, const Steps& steps, const RowTable& rows,
        std::int64_t capacity, bool over_cp)
      : problem_(problem),
        context_(context),
        source_step_(steps.teacher_source),
        product_step_(steps.teacher_product),
        rows_(rows),
        over_cp_(over_cp),
        size_(problem.teacher.hidden),
        factor_(teacher_factor_dtype(problem)),
        over_tp_(device_buffer(context.device, over_tp_bytes(problem), "teacher_gathered")),
        over_all_(
            device_buffer(context.device, over_all_bytes(problem, over_cp), "teacher_gathered")),
        chunk_(device_buffer(context.device, chunk_bytes(problem, capacity), "teacher_chunk")),
        logits_(context.device, capacity * problem.width(), "teacher_chunk", MemorySpace::device),
        source_(context.device, static_cast<std::size_t>(all_rows(problem, over_cp)), "row_table"),
        workspace_(context.device, product_workspace(problem), "gemm_workspace",
                   MemorySpace::device) {}

  void gather(const LossInputs& inputs) {
    weight_ = inputs.teacher_weight;
    hidden_ = inputs.teacher_hidden;
    const DType dtype = problem_.teacher.dtype;
    auto elements = static_cast<std::size_t>(problem_.hidden_rows() * size_);
    if (problem_.grid.sp) {
      context_.tp.all_gather(hidden_, over_tp_.data(), elements, dtype);
      hidden_ = over_tp_.data();
      elements *= static_cast<std::size_t>(problem_.grid.row_parts());
    }
    if (over_cp_ && problem_.grid.cp > 1) {
      context_.cp.all_gather(hidden_, over_all_.data(), elements, dtype);
      hidden_ = over_all_.data();
    }
  }

  void make(std::int64_t begin, LogitsRows& logits) {
    logits.teacher_dtype = DType::f32;
    logits.teacher = logits_.data();
    if (logits.rows == 0) return;
    copy_rows({begin, logits.rows});
    Gemm z{};
    z.m = logits.rows;
    z.n = logits.shard.valid();
    z.k = size_;
    z.a = {factor_, chunk_.data(), size_};
    z.b = {problem_.teacher.dtype, weight_, size_, true};
    z.c = logits_.data();
    z.stride = logits.shard.width;
    z.stream = context_.device.stream();
    product_step_(problem_, context_, z, workspace_.span());
  }

 private:
  /// Copies the hidden states of rows that predict a token, in the dtype of the factor.
  void copy_rows(const RowRange& range) {
    // Each range has its own slots, because kernels may still read the slots of the previous range.
    const std::span<std::int32_t> source(source_.data() + range.begin,
                                         static_cast<std::size_t>(range.count));
    source_step_(problem_, context_, range, source);
    for (std::int64_t k = 0; k < range.count; ++k) {
      if (rows_.targets()[range.begin + k] < 0) source[static_cast<std::size_t>(k)] = -1;
    }
    gather_rows(context_.device, {problem_.teacher.dtype, hidden_, source.data(), factor_,
                                  chunk_.data(), range.count, size_});
  }

  const LossProblem& problem_;
  RankContext context_;
  const decltype(Steps::teacher_source) source_step_;
  const decltype(Steps::teacher_product) product_step_;
  const RowTable& rows_;
  const bool over_cp_;
  const std::int64_t size_;  // N
  const DType factor_;
  Buffer over_tp_;     // [T_c, N] with SP
  Buffer over_all_;    // [T_pad, N] with rows of all CP ranks
  Buffer chunk_;       // [capacity, N] in the dtype of the factor
  FloatArray logits_;  // [capacity, V_t]
  DeviceArray<std::int32_t> source_;
  FloatArray workspace_;
  const void* hidden_ = nullptr;
  const void* weight_ = nullptr;
};

TeacherProduct::TeacherProduct(const LossProblem& problem, RankContext context, const Steps& steps,
                               const RowTable& rows, std::int64_t capacity, bool over_cp) {
  if (!problem.makes_teacher()) return;
  maker_ = std::make_unique<Maker>(problem, context, steps, rows, capacity, over_cp);
}

TeacherProduct::~TeacherProduct() = default;

std::int64_t TeacherProduct::bytes(const LossProblem& problem, std::int64_t capacity,
                                   bool over_cp) {
  if (!problem.makes_teacher()) return 0;
  return over_tp_bytes(problem) + over_all_bytes(problem, over_cp) +
         chunk_bytes(problem, capacity) +
         kFloatBytes * (capacity * problem.width() + product_workspace(problem)) +
         kPositionBytes * all_rows(problem, over_cp);
}

void TeacherProduct::add_gather(const LossProblem& problem, PhaseCost& phase, bool over_cp) {
  if (!problem.makes_teacher()) return;
  if (problem.grid.sp) {
    phase.tp.add(Collective::all_gather, 1, problem.teacher_hidden_bytes());
  }
  if (over_cp && problem.grid.cp > 1) {
    phase.cp.add(Collective::all_gather, 1,
                 problem.teacher_hidden_bytes() * problem.grid.row_parts());
  }
}

void TeacherProduct::add_flops(const LossProblem& problem, std::int64_t rows, PhaseCost& phase) {
  if (problem.makes_teacher()) phase.flops += 2 * rows * problem.width() * problem.teacher.hidden;
}

std::int64_t TeacherProduct::chunk_rows(const LossProblem& problem) {
  const std::int64_t rows = problem.local_rows();
  if (!problem.makes_teacher()) return rows;
  return std::min(default_chunk_rows(problem.backend, problem.width()), rows);
}

std::vector<RowRange> TeacherProduct::chunks(const LossProblem& problem) {
  const std::int64_t rows = problem.local_rows();
  const std::int64_t of_chunk = std::max<std::int64_t>(1, chunk_rows(problem));
  std::vector<RowRange> ranges{{0, std::min(of_chunk, rows)}};
  for (std::int64_t begin = of_chunk; begin < rows; begin += of_chunk) {
    ranges.push_back({begin, std::min(of_chunk, rows - begin)});
  }
  return ranges;
}

void TeacherProduct::gather(const LossInputs& inputs) {
  if (maker_) maker_->gather(inputs);
}

void TeacherProduct::make(std::int64_t begin, LogitsRows& logits) {
  if (maker_) maker_->make(begin, logits);
}

}  // namespace lossgrid
