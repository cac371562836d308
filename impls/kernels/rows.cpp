// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels by the backend of the rows: kernels of the processor (cpu/) or of GPUs
// (cuda/).
#include "impls/kernels/rows.h"

#include "harness/device/kernel/launch.h"
#include "impls/kernels/cpu/forward_backward_rows.h"
#include "impls/kernels/cpu/softmax_rows.h"
#include "impls/kernels/cuda/rounded_gradient-inl.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/cuda/term_kernels-inl.h"
#include "impls/kernels/device_rows.h"
#include "impls/kernels/divergence_rows.h"
#include "impls/kernels/hidden_rows.h"
#include "impls/kernels/kept_columns.h"

namespace lossgrid {
namespace {

CudaRowStatistics view(const RowStatistics& out) {
  return {out.shift, out.sum, out.target, out.weighted, out.min};
}

std::int64_t owned_targets(const LogitsRows& rows) {
  return owned_targets(rows.rows, rows.shard, rows.targets, rows.valid);
}

}  // namespace

LogitsRows LogitsRows::slice(std::int64_t begin, std::int64_t count) const {
  LogitsRows part = *this;
  const auto offset = static_cast<std::size_t>(begin * shard.width) * size_of(dtype);
  part.data = static_cast<const std::byte*>(data) + offset;
  part.rows = count;
  part.targets = targets.from(begin);
  part.valid += begin;
  if (transforms != nullptr) part.transforms += begin;
  if (kept != nullptr) part.kept = KeptColumns::of_row(kept, shard.width, begin).words;
  if (teacher != nullptr) {
    part.teacher = static_cast<const std::byte*>(teacher) +
                   static_cast<std::size_t>(begin * shard.width) * size_of(teacher_dtype);
  }
  if (teacher_transforms != nullptr) part.teacher_transforms += begin;
  return part;
}

DistilledRows distilled(const LogitsRows& logits) {
  DistilledRows both{logits, logits, logits.divergence};
  both.student.teacher = nullptr;
  both.student.teacher_transforms = nullptr;
  both.teacher = both.student;
  both.teacher.dtype = logits.teacher_dtype;
  both.teacher.data = logits.teacher;
  both.teacher.transforms = logits.teacher_transforms;
  return both;
}

std::int64_t rows_statistics(const LogitsRows& rows, const RowStatistics& out) {
  if (on_processor(rows)) {
    cpu_statistics(rows, out);
  } else if (rows.transforms == nullptr && rows.kept == nullptr && out.total == nullptr) {
    launch_kernels(*rows.device, LaunchStatistics{device_view(rows), view(out)});
  } else {
    launch_kernels(*rows.device, LaunchTermStatistics{
                                     device_view(rows),
                                     rows.transforms,
                                     {view(out), out.total, out.finite, out.squares, out.beaten}});
  }
  return owned_targets(rows);
}

void rows_gradient(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                   void* out) {
  if (gradients.terms[RowTerm::divergence] != nullptr) {
    return rows_divergence_gradient(distilled(rows), softmax.of_divergence(rows.divergence),
                                    softmax.of_teacher(), softmax.divergence_of_student,
                                    gradients.terms[RowTerm::divergence], out);
  }
  if (on_processor(rows)) return cpu_gradient(rows, softmax, gradients, out);
  if (rows.transforms == nullptr && rows.kept == nullptr && gradients.logprob_alone()) {
    return launch_kernels(*rows.device, LaunchGradient{device_view(rows), softmax.shift,
                                                       softmax.sum, gradients.logprob, out});
  }
  launch_kernels(*rows.device, LaunchTermGradient{device_view(rows), rows.transforms, softmax,
                                                  gradients, rows.vocab, out});
}

void rows_gradient_rounded(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, float* data) {
  const bool is_plain =
      rows.transforms == nullptr && rows.kept == nullptr && gradients.logprob_alone();
  if (!on_processor(rows) && is_plain) {
    return launch_kernels(*rows.device,
                          LaunchRoundedGradient{device_view(rows), softmax.shift, softmax.sum,
                                                gradients.logprob, data});
  }
  rows_gradient(rows, softmax, gradients, data);
  round_rows(*rows.device, data, rows.rows, rows.shard.width);
}

std::int64_t rows_forward_backward(const LogitsRows& rows, const float* grad,
                                   std::span<float> scratch, const RowStatistics& out,
                                   void* gradient) {
  if (on_processor(rows)) {
    cpu_forward_backward(rows, grad, scratch, out, gradient);
  } else {
    launch_kernels(*rows.device,
                   LaunchForwardBackward{device_view(rows), grad, view(out), gradient});
  }
  return owned_targets(rows);
}

}  // namespace lossgrid
