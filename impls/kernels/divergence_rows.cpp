// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels by the backend of the student's rows, like rows.cpp.
#include "impls/kernels/divergence_rows.h"

#include "harness/device/kernel/launch.h"
#include "impls/kernels/cpu/divergence_rows.h"
#include "impls/kernels/cuda/divergence_kernels-inl.h"
#include "impls/kernels/device_rows.h"

namespace lossgrid {
namespace {

CudaDistilledRows device_view(const DistilledRows& rows) {
  return {device_view(rows.student), device_view(rows.teacher), rows.student.transforms,
          rows.teacher.transforms, rows.divergence};
}

}  // namespace

void rows_support_statistics(const DistilledRows& rows, float* shift, float* sum) {
  if (on_processor(rows.student)) return cpu_support_statistics(rows, shift, sum);
  launch_kernels(*rows.student.device, LaunchSupportStatistics{device_view(rows), shift, sum});
}

void rows_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                     const DivergenceSums& out) {
  if (on_processor(rows.student)) return cpu_divergence(rows, p, q, out);
  launch_kernels(*rows.student.device,
                 LaunchDivergence{device_view(rows), p, q, out.of_teacher, out.of_student});
}

void rows_divergence_gradient(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                              const float* of_student, const float* gradient, void* out) {
  if (on_processor(rows.student)) {
    return cpu_divergence_gradient(rows, p, q, of_student, gradient, out);
  }
  launch_kernels(*rows.student.device,
                 LaunchDivergenceGradient{device_view(rows), p, q, of_student, gradient, out});
}

}  // namespace lossgrid
