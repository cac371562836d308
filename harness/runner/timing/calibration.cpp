// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/timing/calibration.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/core/error.h"
#include "harness/core/process/available_memory.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/measure/cache.h"
#include "harness/measure/memory_rates.h"
#include "harness/problem/case/case_keys.h"
#include "harness/runner/timing/timing.h"

namespace lossgrid {
namespace {

constexpr std::chrono::seconds kDeadline(300);
constexpr int kMostRanks = 8;
constexpr std::int64_t kManyRows = 32768;

/// Times an implementation on one rank, with its ceilings.
TimingRecord time_case(const std::string& text, const std::string& implementation,
                       double max_seconds) {
  ProblemCache problems;
  TimingRequest request;
  request.implementations = {implementation};
  request.max_seconds = max_seconds;
  const TimingOutcome timed = time_implementations(problems.get(parse_case(text)), {implementation},
                                                   Grid{}, request, CacheMode::hot, kDeadline);
  if (timed.record.rows.empty()) {
    throw Error(ErrorCode::internal,
                fmt::format("{} on \"{}\": {}", implementation, text, timed.record.reason));
  }
  return timed.record;
}

/// Returns the seconds of a phase by the 20 % quantile: other work of the machine only slows it
/// down.
double seconds_of(const std::string& phase, const std::string& text,
                  const std::string& implementation, double max_seconds) {
  for (const TimingRow& row : time_case(text, implementation, max_seconds).rows) {
    if (row.phase == phase) return 1e-9 * static_cast<double>(row.time.p20_ns);
  }
  throw Error(ErrorCode::internal, fmt::format("{} has no phase {}", implementation, phase));
}

/// Returns the rate of the three products of the LM head together.
double product_rate(const std::string& dtype, double max_seconds) {
  const TimingRecord timed = time_case("lens=256 mask=all vocab=4096 hidden=1024 dtype=" + dtype,
                                       "linear_ce", max_seconds);
  double flops = 0;
  double seconds = 0;
  for (const CeilingRow& ceiling : timed.ceilings) {
    flops += static_cast<double>(ceiling.rank_flops);
    seconds += 1e-9 * static_cast<double>(ceiling.time.p20_ns);
  }
  return flops / seconds;
}

/// Measures what a phase costs without rows and a row without a vocabulary, then what is left of
/// rows with one: where no gradient is written, and where it takes the place of the logits, so that
/// no other memory is in the rates.
void measure_kernels(double max_seconds, Machine& machine) {
  const auto both_phases = [&](std::int64_t rows) {
    return seconds_of("forward_backward", fmt::format("lens={} mask=all vocab=16", rows), "fused",
                      max_seconds);
  };
  machine.phase_seconds = both_phases(2) / 2;
  machine.row_seconds = std::max(0.0, both_phases(kManyRows) / 2 - machine.phase_seconds) /
                        static_cast<double>(kManyRows);
  constexpr double kRows = 64;
  constexpr double kColumns = 16384;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    // `passes`: as many as of rows in the model.
    const auto elements_per_second = [&](const char* phase, const char* implementation,
                                         int passes) {
      const double seconds = seconds_of(
          phase,
          fmt::format("lens=65 mask=all vocab={} statistics=false dtype={}", kColumns, name(dtype)),
          implementation, max_seconds);
      const double others = machine.phase_seconds + passes * kRows * machine.row_seconds;
      // Half at least: all but the elements is small.
      return kRows * kColumns / std::max(seconds / 2, seconds - others);
    };
    machine.exponentials_per_second[dtype] = elements_per_second("forward", "fused", 1);
    machine.kept_exponentials_per_second[dtype] =
        elements_per_second("forward_backward", "one_sweep:in_place=true", 2);
  }
}

MemoryRates rates_at(Device& device, std::int64_t pass_bytes, std::int64_t capacity_bytes) {
  const std::map<MemoryKernel, double> rates = memory_rates(device, pass_bytes);
  return {capacity_bytes, rates.at(MemoryKernel::read), rates.at(MemoryKernel::copy),
          rates.at(MemoryKernel::update)};
}

/// Measures memory and the last cache with the threads of one rank.
void measure_memory(std::int64_t pass_bytes, Machine& machine) {
  share_cores(1);
  const std::unique_ptr<Device> device = make_cpu_device();
  device->tracker().begin_phase("calibrate");
  const std::int64_t cache_bytes = last_level_cache_bytes();
  machine.memory = rates_at(*device, pass_bytes, available_memory_bytes());
  machine.cache = rates_at(*device, cache_bytes / 4, cache_bytes);
}

/// Measures how far memory and exponentials overlap, where the two take about as long: in the
/// forward pass of bf16 logits that no cache holds.
void measure_overlap(std::int64_t logits_bytes, double max_seconds, Machine& machine) {
  constexpr std::int64_t kColumns = 32768;
  const std::int64_t rows =
      std::max<std::int64_t>(64, logits_bytes / (kColumns * size_of(DType::bf16)));
  const auto elements = static_cast<double>(rows * kColumns);
  const double seconds = seconds_of(
      "forward",
      fmt::format("lens={} mask=all vocab={} statistics=false dtype=bf16", rows + 1, kColumns),
      "fused", max_seconds);
  const double of_rows = machine.phase_seconds + static_cast<double>(rows) * machine.row_seconds;
  const double memory = elements * size_of(DType::bf16) / machine.memory.read_bytes_per_second;
  const double exponentials = elements / machine.exponential_rate(DType::bf16);
  const double hidden = memory + exponentials - (seconds - of_rows);
  machine.overlap = std::clamp(hidden / std::min(memory, exponentials), 0.0, 1.0);
}

}  // namespace

Machine measure_machine(const CalibrationRequest& request) {
  Machine machine;
  machine.name = request.name;
  machine.measured = true;
  machine.cores = core_share(1).cores;
  machine.summary = fmt::format("the processor of one machine, {} cores", machine.cores);
  const std::int64_t pass_bytes =
      request.memory_pass_bytes > 0 ? request.memory_pass_bytes : 16 * last_level_cache_bytes();
  measure_memory(pass_bytes, machine);
  measure_kernels(request.max_seconds, machine);
  constexpr std::int64_t kMostLogitsBytes = std::int64_t{1} << 29;
  measure_overlap(std::min(kMostLogitsBytes, pass_bytes / 4), request.max_seconds, machine);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    machine.gemm_flops_per_second[dtype] =
        product_rate(std::string(name(dtype)), request.max_seconds);
  }
  return machine;
}

std::vector<CollectiveSample> measure_links(const Ranks& ranks) {
  const int most = ranks.limit() > 0 ? std::min(kMostRanks, ranks.limit()) : kMostRanks;
  std::vector<CollectiveSample> samples;
  for (int count = 2; count <= most; count *= 2) {
    const auto run = ranks.run<std::string>(
        count,
        [&samples](Communicator& world) {
          const std::vector<CollectiveSample> times =
              time_collectives(world, last_level_cache_bytes());
          if (world.rank() == 0) samples.insert(samples.end(), times.begin(), times.end());
          return std::string();
        },
        kDeadline);
    if (!run.outcome.all_ok()) {
      throw Error(ErrorCode::rank_failed, "a rank failed in the collectives of a calibration");
    }
  }
  return samples;
}

}  // namespace lossgrid
