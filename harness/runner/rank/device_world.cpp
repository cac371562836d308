// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/device_world.h"

#include "harness/comm/nccl/nccl_transport.h"
#include "harness/comm/staged_communicator.h"

namespace lossgrid {

DeviceWorld::DeviceWorld(const TrialSetup& setup, Communicator& world)
    : world_(world), device_(make_device(setup.backend, world.rank())) {
  if (!setup.over_nccl) return;
  stream_ = make_nccl_stream(*device_);
  nccl_ = over_nccl(world, *stream_);
}

Communicator& DeviceWorld::for_tensors(Communicator& group) {
  if (nccl_) return group;
  return *staged_.emplace_back(stage_payloads(group, *device_));
}

}  // namespace lossgrid
