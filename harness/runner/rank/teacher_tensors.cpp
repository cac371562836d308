// SPDX-License-Identifier: Apache-2.0
#include "harness/core/hash.h"
#include "harness/device/memory/host_view.h"
#include "harness/device/parallel_fingerprint.h"
#include "harness/runner/rank/rank_tensors.h"

namespace lossgrid {
namespace {

Buffer allocated(const RankPack& pack, std::int64_t bytes, const char* tag) {
  return pack.device.allocate(static_cast<std::size_t>(bytes), tag, MemorySpace::device);
}

}  // namespace

TeacherTensors::TeacherTensors(const RankPack& pack) {
  const LossProblem& problem = pack.loss_problem;
  if (!problem.has_teacher()) return;
  const PackRank& rank = pack.rank;
  if (!problem.makes_teacher()) {
    logits_ = allocated(pack, problem.teacher_bytes(), "teacher");
    const HostView logits(logits_);
    fill_teacher_shard(pack.problem, problem.grid, rank.tp_rank, rank.cp_rank, logits.data());
    logits.write_back();
    return;
  }
  hidden_ = allocated(pack, problem.teacher_hidden_bytes(), "teacher_hidden");
  const HostView hidden(hidden_);
  fill_teacher_hidden_shard(pack.problem, problem.grid, rank.tp_rank, rank.cp_rank, hidden.data());
  hidden.write_back();
  weight_ = allocated(pack, problem.teacher_weight_bytes(), "teacher_weight");
  const HostView weight(weight_);
  fill_teacher_weight_shard(pack.problem, problem.grid, rank.tp_rank, weight.data());
  weight.write_back();
}

void TeacherTensors::add_to(LossInputs& inputs) const {
  inputs.teacher = logits_.data();
  inputs.teacher_hidden = hidden_.data();
  inputs.teacher_weight = weight_.data();
}

std::uint64_t TeacherTensors::bits() const {
  constexpr std::uint64_t kHiddenBits = 4;  // places in a fingerprint of the inputs
  constexpr std::uint64_t kWeightBits = 5;
  if (logits_.data() != nullptr) return parallel_fingerprint(HostView(logits_).bytes());
  if (hidden_.data() == nullptr) return 0;
  return fingerprint(HostView(hidden_).bytes(), kHiddenBits) +
         fingerprint(HostView(weight_).bytes(), kWeightBits);
}

}  // namespace lossgrid
