// SPDX-License-Identifier: Apache-2.0
// Payloads from GPU to GPU over NCCL, on top of a transport between hosts: ranks may be threads or
// processes, each with a GPU of its own. In a build without nccl.h all of this is there and says
// so. Used by the thread of a rank, with its device current.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/comm/communicator.h"
#include "harness/core/skip_reason.h"

namespace lossgrid {

class NcclStream;

/// The environment variable that names the library; without it the linker's libnccl.so.2 is taken.
inline constexpr const char* kNcclLibraryVariable = "LOSSGRID_NCCL_LIBRARY";

/// Returns nullopt if this process has found NCCL, whether or not there are GPUs. Looked for once.
const std::optional<SkipReason>& no_nccl();

/// "2.28.9" of the library that was found; requires one.
std::string nccl_version();

/// Whether it is an emulation, which takes memory of emulated devices and of no GPU, in ranks that
/// are threads: it exports kNcclEmulationMark. For tests of this transport.
bool nccl_is_emulated();
inline constexpr const char* kNcclEmulationMark = "lossgrid_nccl_emulation";

/// A communicator of the ranks of `inner`, as are those that it is split into. What kernels can
/// reach goes over NCCL on `stream`, all else over `inner`, and so do barriers and splits. Both
/// outlive it. Collective.
///
/// Every call still meets over `inner` first, which compares it on all ranks and notices those that
/// fail or leave; times of calls hold this meeting. Then the rank waits until its stream is idle.
/// When NCCL reports an error, the run fails elsewhere or its deadline passes, the communicator is
/// aborted (ncclCommAbort), and so are the others of the rank when they go.
///
/// Bits: NCCL adds in an order of its own choice, which may depend on the number and the place of
/// elements, and with NVLink SHARP on the run. All ranks get the same sums, and sums of two ranks
/// and of whole numbers are those of every other transport. Its max and min drop a NaN, so those of
/// f32 and f64 are gathered and then reduced in rank order; they have the bits of other transports.
///
/// Throws unsupported when ranks share a GPU, rank_failed with the text of NCCL.
std::unique_ptr<Communicator> over_nccl(Communicator& inner, NcclStream& stream);

}  // namespace lossgrid
