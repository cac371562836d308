// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, with emulated devices, and communicators over the fake NCCL.
#pragma once

#include <functional>
#include <memory>

#include <dlfcn.h>

#include "fake_nccl/fake_nccl.h"
#include "harness/comm/nccl/nccl_communicator.h"
#include "harness/device/backend.h"

namespace lossgrid {

/// Controls of the loaded library, the same for the whole program.
inline FakeNccl& fake_nccl() {
  static FakeNccl* const fake = [] {
    void* library = dlopen(LOSSGRID_FAKE_NCCL, RTLD_NOW);
    return reinterpret_cast<FakeNcclFunction>(dlsym(library, kFakeNcclSymbol))();
  }();
  return *fake;
}

/// Loads the library as of this version, well-behaved, with all counts at zero.
inline NcclLibrary fresh_nccl(int version = NCCL_VERSION_CODE) {
  FakeNccl& fake = fake_nccl();
  fake.version = version;
  fake.failing_rank = fake.refusing_rank = -1;
  fake.hangs = false;
  for (auto* count :
       {&fake.connected, &fake.split, &fake.aborted, &fake.destroyed, &fake.collectives}) {
    *count = 0;
  }
  return load_nccl(LOSSGRID_FAKE_NCCL);
}

/// Runs `body` with a communicator over `nccl` of the ranks of `world`.
inline std::function<void(Communicator& world)> on_nccl(
    const NcclLibrary& nccl, std::function<void(Communicator& comm)> body) {
  return [&nccl, body = std::move(body)](Communicator& world) {
    const std::unique_ptr<Device> device = make_device(Backend::cuda_emulated, world.rank());
    const std::unique_ptr<NcclStream> stream = make_nccl_stream(*device);
    const std::unique_ptr<Communicator> comm = over_nccl(world, *stream, nccl);
    try {
      body(*comm);
    } catch (...) {
      device->synchronise();  // as destructors of buffers do: no kernel may be stuck
      throw;
    }
  };
}

}  // namespace lossgrid
