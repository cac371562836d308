// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/timing/gpu_rows.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "harness/core/error.h"

namespace lossgrid {

GpuLog::GpuLog(const std::string& uuid) {
  if (uuid.empty()) return;
  try {
    monitor_.emplace(uuid);
  } catch (const Error& error) {
    states_.missing_reason = error.what();
  }
}

void GpuLog::begin_round() {
  if (monitor_) states_.by_round.push_back(monitor_->read());
}

std::optional<GpuRow> gpu_row(std::int64_t rank, const GpuStates& states,
                              std::int64_t warm_up_rounds) {
  constexpr double kSlow = 0.95;  // of the highest clock
  GpuRow row;
  row.rank = rank;
  row.reason = states.missing_reason;
  if (!row.reason.empty()) return row;
  const std::span<const GpuState> all = states.by_round;
  const auto rounds = all.subspan(
      std::min(all.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, warm_up_rounds))));
  if (rounds.empty()) return std::nullopt;
  const auto range = [&](std::int64_t GpuState::*number) {
    const auto [least, most] = std::minmax_element(
        rounds.begin(), rounds.end(),
        [&](const GpuState& a, const GpuState& b) { return a.*number < b.*number; });
    return std::pair((*least).*number, (*most).*number);
  };
  std::tie(row.least_sm_mhz, row.most_sm_mhz) = range(&GpuState::sm_mhz);
  std::tie(row.least_memory_mhz, row.most_memory_mhz) = range(&GpuState::memory_mhz);
  row.most_watts = static_cast<double>(range(&GpuState::milliwatts).second) / 1000;
  row.most_celsius = range(&GpuState::celsius).second;
  std::int64_t limits = 0;
  for (const GpuState& state : rounds) {
    limits |= state.limits;
    row.slow_rounds +=
        static_cast<double>(state.sm_mhz) < kSlow * static_cast<double>(row.most_sm_mhz) ? 1 : 0;
  }
  row.limited_by = names_of_limits(limits);
  return row;
}

}  // namespace lossgrid
