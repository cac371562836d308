// SPDX-License-Identifier: Apache-2.0
// The functions and numbers of NVML that are used here have been the same since its release 7; its
// header is no part of the CUDA Toolkit's packages. NVML API Reference, "Device Queries".
#include "harness/device/gpu_state.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/process/shared_library.h"

namespace lossgrid {
namespace {

using NvmlDevice = void*;
constexpr int kSuccess = 0;
constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;

/// Names of the bits, from the lowest.
constexpr std::array kLimits{"gpu_idle",
                             "applications_clocks_setting",
                             "sw_power_cap",
                             "hw_slowdown",
                             "sync_boost",
                             "sw_thermal_slowdown",
                             "hw_thermal_slowdown",
                             "hw_power_brake_slowdown",
                             "display_clock_setting"};
constexpr std::int64_t kIdle = 1;

std::string library_name() {
  const char* named = std::getenv(kNvmlLibraryVariable);
  return named == nullptr ? "libnvidia-ml.so.1" : named;
}

/// Returns "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string with_dashes(const std::string& uuid) {
  if (uuid.size() != 32) {
    throw Error(ErrorCode::unsupported, fmt::format("'{}' is no UUID of a GPU", uuid));
  }
  return fmt::format("GPU-{}-{}-{}-{}-{}", uuid.substr(0, 8), uuid.substr(8, 4), uuid.substr(12, 4),
                     uuid.substr(16, 4), uuid.substr(20));
}

}  // namespace

struct GpuMonitor::Nvml {
  NvmlDevice device = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*limits)(NvmlDevice, unsigned long long*) = nullptr;

  explicit Nvml(const std::string& uuid) {
    const SharedLibrary library(library_name());
    int (*begin)() = nullptr;
    int (*find)(const char*, NvmlDevice*) = nullptr;
    const char* (*text)(int) = nullptr;
    library.find("nvmlInit_v2", begin);
    library.find("nvmlDeviceGetHandleByUUID", find);
    library.find("nvmlErrorString", text);
    library.find("nvmlDeviceGetClockInfo", clock);
    library.find("nvmlDeviceGetPowerUsage", power);
    library.find("nvmlDeviceGetTemperature", temperature);
    library.find("nvmlDeviceGetCurrentClocksThrottleReasons", limits);
    const auto require = [&](int status, const std::string& call) {
      if (status == kSuccess) return;
      throw Error(ErrorCode::unsupported, fmt::format("{}: {}", call, text(status)));
    };
    require(begin(), "nvmlInit");
    const std::string name = with_dashes(uuid);
    require(find(name.c_str(), &device), "NVML and " + name);
  }
};

GpuMonitor::GpuMonitor(const std::string& uuid) : nvml_(std::make_unique<Nvml>(uuid)) {}
GpuMonitor::~GpuMonitor() = default;

GpuState GpuMonitor::read() const {
  const auto number = [](auto&& call) {
    unsigned value = 0;
    return call(&value) == kSuccess ? std::int64_t{value} : 0;
  };
  const Nvml& nvml = *nvml_;
  GpuState state;
  state.sm_mhz = number([&](unsigned* to) { return nvml.clock(nvml.device, kSmClock, to); });
  state.memory_mhz =
      number([&](unsigned* to) { return nvml.clock(nvml.device, kMemoryClock, to); });
  state.milliwatts = number([&](unsigned* to) { return nvml.power(nvml.device, to); });
  state.celsius =
      number([&](unsigned* to) { return nvml.temperature(nvml.device, kGpuTemperature, to); });
  unsigned long long limits = 0;
  if (nvml.limits(nvml.device, &limits) == kSuccess) {
    state.limits = static_cast<std::int64_t>(limits) & ~kIdle;
  }
  return state;
}

std::vector<std::string> names_of_limits(std::int64_t limits) {
  std::vector<std::string> names;
  for (std::size_t bit = 0; bit < 63; ++bit) {
    if ((limits >> bit & 1) == 0) continue;
    names.push_back(bit < kLimits.size() ? kLimits[bit] : fmt::format("bit_{}", bit));
  }
  return names;
}

}  // namespace lossgrid
