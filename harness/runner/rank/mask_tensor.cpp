// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/host_view.h"
#include "harness/device/parallel_fingerprint.h"
#include "harness/runner/rank/rank_tensors.h"

namespace lossgrid {

MaskTensor::MaskTensor(const RankPack& pack)
    : buffer_(pack.device.allocate(static_cast<std::size_t>(pack.loss_problem.mask_bytes()),
                                   "sampling_mask", MemorySpace::device)) {
  if (!pack.loss_problem.sampling.has_mask) return;
  const HostView bits(buffer_);
  fill_mask_shard(pack.problem, pack.loss_problem.grid, pack.rank.tp_rank, pack.rank.cp_rank,
                  bits.as<std::uint64_t>().data());
  bits.write_back();
}

std::uint64_t MaskTensor::bits() const {
  return parallel_fingerprint(HostView(buffer_).bytes());
}

}  // namespace lossgrid
