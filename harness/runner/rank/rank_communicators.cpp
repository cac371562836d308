// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/rank_communicators.h"

#include <utility>

namespace lossgrid {

RankCommunicators::RankCommunicators(Communicator& world, DeviceWorld& device_world,
                                     const Grid& grid, const std::optional<Fault>& fault,
                                     const MeasuredAxes& measured)
    : world_(world),
      groups_(make_process_grid(device_world.world(), grid.is_dynamic() ? grid.with_cp(1) : grid)) {
  if (grid.pp > 1) stage_ = world.split(groups_.pp_rank(), world.rank(), "stage");
  if (fault) injector_.emplace(*fault, world.rank());
  tp_ = &device_world.for_tensors(inject(measure(*groups_.tp, measured.tp)));
  for (const int size : grid.cp_sizes()) {
    Communicator* group = groups_.cp.get();
    if (grid.is_dynamic()) {
      cp_groups_.push_back(split_cp(device_world.world(), grid.with_cp(size)));
      group = cp_groups_.back().get();
    }
    cp_[size] = &device_world.for_tensors(inject(measure(*group, measured.cp)));
  }
  dp_ = &measure(*groups_.dp, measured.dp);
  pp_ = &inject(measure(*groups_.pp, measured.pp));
}

Communicator& RankCommunicators::keep(std::unique_ptr<Communicator> layer) {
  return *layers_.emplace_back(std::move(layer));
}

Communicator& RankCommunicators::measure(Communicator& group, const MeasureCalls& measured) {
  return measured ? keep(measured(group)) : group;
}

Communicator& RankCommunicators::inject(Communicator& group) {
  return injector_ ? keep(inject_faults(group, *injector_)) : group;
}

}  // namespace lossgrid
