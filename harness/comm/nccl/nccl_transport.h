// SPDX-License-Identifier: Apache-2.0
// NCCL transport: payloads from GPU to GPU over NCCL, on top of a transport between hosts. Ranks
// may be threads or processes, each with its own GPU. In a build without nccl.h all functions throw
// unsupported. Used by the thread of a rank, with its device current.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/comm/communicator.h"
#include "harness/core/skip_reason.h"

namespace lossgrid {

class NcclStream;

/// Environment variable with the path of the library; by default the linker's libnccl.so.2.
inline constexpr const char* kNcclLibraryVariable = "LOSSGRID_NCCL_LIBRARY";

/// Returns nullopt if this process has loaded NCCL; GPUs are not checked. Loaded once.
const std::optional<SkipReason>& no_nccl();

/// Returns "2.28.9", the version of the library. Requires !no_nccl().
std::string nccl_version();

/// Returns true for an emulation, which serves ranks that are threads on emulated devices and no
/// GPU: it exports kNcclEmulationMark. For tests of this transport.
bool nccl_is_emulated();
inline constexpr const char* kNcclEmulationMark = "lossgrid_nccl_emulation";

/// Makes a communicator of the ranks of `inner`; its splits are of the same kind. Memory that
/// kernels reach goes over NCCL on `stream`, all other memory, barriers and splits over `inner`.
/// Both outlive it. Collective.
///
/// Every call begins with a rendezvous over `inner`, which compares it on all ranks and notices
/// ranks that fail or leave; times of calls include it. Then the rank waits until its stream is
/// idle. If NCCL reports an error, the run fails elsewhere or its deadline passes, the communicator
/// is aborted (ncclCommAbort), and so are the others of the rank at their end.
///
/// Bits: NCCL adds in an order of its own choice, which may depend on the number and the place of
/// elements, and with NVLink SHARP on the run. All ranks get the same sums, and sums of two ranks
/// and of whole numbers are those of every other transport. Its max and min drop a NaN, so those of
/// f32 and f64 are gathered and then reduced in rank order; they have the bits of other transports.
///
/// Throws unsupported if ranks share a GPU, rank_failed with the text of NCCL.
std::unique_ptr<Communicator> over_nccl(Communicator& inner, NcclStream& stream);

}  // namespace lossgrid
