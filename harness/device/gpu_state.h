// SPDX-License-Identifier: Apache-2.0
// GpuState: clocks, power and temperature of a GPU at a moment, and the limits that keep its clocks
// down, by NVIDIA's management library (NVML), which is loaded at run time. Times of a GPU mean
// nothing without its state: an idle GPU runs at a fifth of its clock, and a hot GPU slower than a
// cool one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lossgrid {

/// Environment variable that names the library in place of libnvidia-ml.so.1.
inline constexpr const char* kNvmlLibraryVariable = "LOSSGRID_NVML_LIBRARY";

struct GpuState {
  std::int64_t sm_mhz = 0;
  std::int64_t memory_mhz = 0;
  std::int64_t milliwatts = 0;
  std::int64_t celsius = 0;
  std::int64_t limits = 0;  // bits of NVML's "clocks event reasons", without the bit for idle
};

/// Returns the names of the bits of GpuState::limits as in nvidia-smi: "sw_power_cap".
std::vector<std::string> names_of_limits(std::int64_t limits);

/// The GPU of a rank as NVML sees it.
class GpuMonitor {
 public:
  /// Finds the GPU by its UUID, 32 hexadecimal digits. Throws unsupported with the reason: no
  /// library, a library that lacks a function, or a GPU that is unknown to it.
  explicit GpuMonitor(const std::string& uuid);
  ~GpuMonitor();

  /// Reads the state: some tens of microseconds. Numbers that the GPU does not have are 0.
  GpuState read() const;

 private:
  struct Nvml;
  const std::unique_ptr<Nvml> nvml_;
};

/// States of a GPU at the rounds of a timing, or the reason why they are missing.
struct GpuStates {
  std::vector<GpuState> by_round;
  std::string missing_reason;  // empty if states exist or there is no GPU
};

}  // namespace lossgrid
