// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/host_view.h"
#include "harness/device/parallel_fingerprint.h"
#include "harness/runner/trial/rank_tensors.h"

namespace lossgrid {

TeacherTensor::TeacherTensor(const RankPack& pack)
    : buffer_(pack.device.allocate(static_cast<std::size_t>(pack.loss_problem.teacher_bytes()),
                                   "teacher", MemorySpace::device)) {
  if (!pack.loss_problem.has_teacher()) return;
  const HostView logits(buffer_);
  fill_teacher_shard(pack.problem, pack.loss_problem.grid, pack.rank.tp_rank, pack.rank.cp_rank,
                     logits.data());
  logits.write_back();
}

std::uint64_t TeacherTensor::bits() const {
  return parallel_fingerprint(HostView(buffer_).bytes());
}

}  // namespace lossgrid
