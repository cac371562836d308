// SPDX-License-Identifier: Apache-2.0
// Where kernels run: on the processor, on a GPU by CUDA, or on the processor in the way that a GPU
// runs them (cuda_emulated): the same kernel code, block by block, for machines without a GPU. Its
// arithmetic counts, its times do not.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.h"

namespace lossgrid {

/// "cpu", "cuda", "cuda_emulated"
std::string_view name(Backend backend);
/// Throws bad_input with the names; `where` begins the message.
Backend parse_backend(std::string_view text, std::string_view where);
const std::vector<Backend>& all_backends();

/// Why there is no device of this backend here; empty where there is one. Asked once, then the same
/// for the life of the process.
const std::string& why_no_device(Backend backend);

/// "NVIDIA H200, sm_90, 139.8 GiB, driver 13.0": a line for each device; of the processor, none.
std::vector<std::string> describe_devices(Backend backend);

/// Device::kernels() of such devices; those of the processor in builds without CUDA.
const KernelTable& kernels_of(Backend backend);

/// The device of a rank of this process; ranks beyond the number of GPUs share them in turn. Throws
/// unsupported where there is none.
std::unique_ptr<Device> make_device(Backend backend, int rank);

}  // namespace lossgrid
