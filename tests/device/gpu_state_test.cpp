// SPDX-License-Identifier: Apache-2.0
#include "harness/device/gpu_state.h"

#include <cstdlib>
#include <functional>

#include <gmock/gmock.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGpu = "0123456789abcdef0123456789abcdef";

/// Scope that names a library of NVML.
class NamedLibrary {
 public:
  explicit NamedLibrary(const char* path) { setenv(kNvmlLibraryVariable, path, 1); }
  ~NamedLibrary() { unsetenv(kNvmlLibraryVariable); }
};

std::string refusal_of(const char* library, const std::string& uuid) {
  const NamedLibrary named(library);
  try {
    const GpuMonitor monitor(uuid);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
  return "";
}

TEST(GpuState, IsReadByNvml) {
  const NamedLibrary named(LOSSGRID_FAKE_NVML);
  const GpuMonitor monitor(kGpu);
  const GpuState first = monitor.read();
  EXPECT_EQ(first.memory_mhz, 3201);
  EXPECT_EQ(first.milliwatts, 699500);
  EXPECT_EQ(first.celsius, 0) << "not known";
  EXPECT_THAT(names_of_limits(first.limits),
              ElementsAre("sw_power_cap", "hw_thermal_slowdown", "bit_15"));
  EXPECT_EQ(first.sm_mhz - monitor.read().sm_mhz, 100);
}

TEST(GpuState, IdleIsNoLimit) {
  EXPECT_THAT(names_of_limits(0), IsEmpty());
}

TEST(GpuState, ReasonsWhyItIsNotKnown) {
  EXPECT_THAT(refusal_of("no_such_library.so", kGpu), HasSubstr("no_such_library.so"));
  EXPECT_THAT(refusal_of("libm.so.6", kGpu), HasSubstr("libm.so.6 has no nvmlInit_v2"));
  EXPECT_EQ(refusal_of(LOSSGRID_FAKE_NVML, "ff234567" + std::string(kGpu + 8)),
            "NVML and GPU-ff234567-89ab-cdef-0123-456789abcdef: Not Found");
  EXPECT_THAT(refusal_of(LOSSGRID_FAKE_NVML, "MIG-1"), HasSubstr("'MIG-1' is no UUID"));
}

}  // namespace
}  // namespace lossgrid
