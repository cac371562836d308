// SPDX-License-Identifier: Apache-2.0
// Tests of vectorised kernels run on every instruction set that this processor has: the parameter
// is one of Highway's targets, and every dispatch takes it while a test runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace lossgrid {

class OnEveryTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  OnEveryTarget() {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(GetParam());
  }
  ~OnEveryTarget() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::vector<std::int64_t> targets_here() {
  std::vector<std::int64_t> targets;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    targets.push_back(left & -left);
  }
  return targets;
}

inline std::string target_name(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

/// Parameter for the emulated kernels of GPUs, beside the targets of Highway.
inline constexpr std::int64_t kEmulated = 0;

inline std::vector<std::int64_t> targets_and_emulation() {
  std::vector<std::int64_t> all = targets_here();
  all.push_back(kEmulated);
  return all;
}

inline std::string target_or_emulation(const testing::TestParamInfo<std::int64_t>& info) {
  return info.param == kEmulated ? "CudaEmulated" : target_name(info);
}

}  // namespace lossgrid
