// SPDX-License-Identifier: Apache-2.0
// RowKernels: a test of row kernels on every instruction set of this processor and with the
// emulated kernels of GPUs.
#pragma once

#include <memory>

#include "harness/device/emulated_device.h"
#include "harness/device/kernel/rank_threads.h"
#include "kernel_targets.h"

namespace lossgrid {

class RowKernels : public OnEveryTarget {
 protected:
  explicit RowKernels(int threads) { set_rank_threads(threads); }
  ~RowKernels() override { set_rank_threads(1 << 20); }

  /// Returns the device of the rows; null: the processor.
  Device* device() const { return GetParam() == kEmulated ? emulated_.get() : nullptr; }

 private:
  const std::unique_ptr<Device> emulated_ = make_emulated_device();
};

}  // namespace lossgrid
