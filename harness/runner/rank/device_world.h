// SPDX-License-Identifier: Apache-2.0
// `DeviceWorld`: the device of a rank and the way in which ranks exchange what it holds: over NCCL,
// or over the transport of the ranks, which stages payloads through the host where it cannot read
// device memory.
#pragma once

#include <memory>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/comm/nccl/nccl_stream.h"
#include "harness/device/device.h"
#include "harness/runner/rank/trial_setup.h"

namespace lossgrid {

class DeviceWorld {
 public:
  /// Collective over `world`, which outlives the object.
  DeviceWorld(const TrialSetup& setup, Communicator& world);

  Device& device() { return *device_; }
  /// Returns all ranks: the communicator that groups are split from.
  Communicator& world() { return nccl_ ? *nccl_ : world_; }
  /// Returns `group`, split from world(), for tensors of the device. Valid as long as this object
  /// and `group`.
  Communicator& for_tensors(Communicator& group);

 private:
  Communicator& world_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<NcclStream> stream_;
  std::unique_ptr<Communicator> nccl_;
  std::vector<std::unique_ptr<Communicator>> staged_;
};

}  // namespace lossgrid
