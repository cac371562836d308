// SPDX-License-Identifier: Apache-2.0
// Records of the costs of a trial, predicted and measured: memory, communication, and coarse times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/field.h"

namespace lossgrid {

/// Peak of one phase on one rank. Predictions are missing for an external implementation without a
/// cost model, the driver's numbers without a GPU.
struct PhaseMemoryRecord {
  std::int64_t rank = 0;
  std::string phase;
  std::optional<std::int64_t> predicted_peak_bytes = 0;
  std::int64_t measured_peak_bytes = 0;
  std::int64_t measured_peak_with_inputs_bytes = 0;
  std::int64_t measured_allocations = 0;
  std::map<std::string, std::int64_t> by_tag_bytes;
  std::optional<std::int64_t> device_used_bytes = {};
  std::optional<std::int64_t> device_other_bytes = {};
  std::vector<std::int64_t> ranks = {};  // only in the compact form of a report

  bool operator==(const PhaseMemoryRecord&) const = default;
};

template <typename A>
void fields(A& a, PhaseMemoryRecord& memory) {
  a.record("memory", "Peak of one phase on one rank, predicted and measured.");
  a("ranks", memory.ranks, "World ranks that are alike, instead of rank.",
    {.min_items = 2, .left_out = memory.ranks.empty()});
  a("rank", memory.rank, "World rank.", {.left_out = !memory.ranks.empty(), .unless = "ranks"});
  a("phase", memory.phase, "Part of the work of an implementation.",
    {.one_of = "plan forward backward"});
  a("predicted_peak_bytes", memory.predicted_peak_bytes,
    "By the implementation's cost model, without inputs; null where it has none.", {.minimum = {}});
  a("measured_peak_bytes", memory.measured_peak_bytes, "Counted by the allocator, without inputs.",
    {.minimum = {}});
  a("measured_peak_with_inputs_bytes", memory.measured_peak_with_inputs_bytes,
    "The same with inputs.", {.minimum = {}});
  a("measured_allocations", memory.measured_allocations,
    "Number of buffers that were asked for during the phase.", {.usual = "0"});
  a("by_tag_bytes", memory.by_tag_bytes, "Bytes live at the peak, by owner.", {.minimum = {}});
  a("device_used_bytes", memory.device_used_bytes,
    "By the driver of the rank's GPU, at the end of the phase: in use on it, by anybody, beyond "
    "the use before the trial.",
    {.minimum = {}, .left_out = !memory.device_used_bytes, .varies = true});
  a("device_other_bytes", memory.device_other_bytes,
    "Part of device_used_bytes outside of the pool of buffers: of libraries, communicators and "
    "other processes.",
    {.minimum = {}, .left_out = !memory.device_other_bytes, .varies = true});
}

/// One kind of collective in one phase on one group. Predictions are missing as above.
struct CommunicationRecord {
  std::int64_t rank = 0;
  std::string phase;
  std::string group;
  std::string operation;
  std::optional<std::int64_t> predicted_calls = 0;
  std::int64_t measured_calls = 0;
  std::optional<std::int64_t> predicted_payload_bytes = 0;
  std::int64_t measured_payload_bytes = 0;
};

template <typename A>
void fields(A& a, CommunicationRecord& calls) {
  a.record("communication",
           "One kind of collective in one phase on one group, predicted and measured.");
  a("rank", calls.rank,
    "The rank shown: the first of the last pipeline stage, or the first that differs from its "
    "prediction.");
  a("phase", calls.phase,
    "Part of the work of an implementation; batch: work for the whole global batch, denominators "
    "before, loss and metrics after, and messages between pipeline stages.",
    {.one_of = "plan forward backward batch"});
  a("group", calls.group,
    "Axis of the grid; world and other: groups that an external implementation used.",
    {.one_of = "tp cp dp pp world other"});
  a("operation", calls.operation, "all_reduce, all_gather, ...", {.nonempty = true});
  a("predicted_calls", calls.predicted_calls, "By the cost model; null where there is none.");
  a("measured_calls", calls.measured_calls, "Counted.");
  a("predicted_payload_bytes", calls.predicted_payload_bytes,
    "By the cost model; null where there is none.");
  a("measured_payload_bytes", calls.measured_payload_bytes, "Counted.");
}

/// One phase of one run, no benchmark.
struct PhaseTimeRecord {
  std::string phase;
  std::int64_t max_over_ranks_ns = 0;
  std::int64_t predicted_flops = 0;
  std::int64_t kernel_launches = 0;
  std::int64_t host_synchronisations = 0;
  std::optional<std::int64_t> predicted_ns = {};  // with --machine
};

template <typename A>
void fields(A& a, PhaseTimeRecord& time) {
  a.record("time", "Coarse time of one phase of one run; no benchmark.");
  a("phase", time.phase, "Part of the work of an implementation.",
    {.one_of = "plan forward backward"});
  a("max_over_ranks_ns", time.max_over_ranks_ns, "Time of the slowest rank.", {.varies = true});
  a("predicted_flops", time.predicted_flops,
    "By the cost model: operations of matrix products, two for a multiplication and an addition, "
    "of the rank with the most.",
    {.usual = "0"});
  a("kernel_launches", time.kernel_launches,
    "Kernels and products that the host gave to a GPU, of the rank with the most; 0 on the "
    "processor.",
    {.usual = "0"});
  a("host_synchronisations", time.host_synchronisations,
    "Times that the host waited for a GPU, of the rank with the most.", {.usual = "0"});
  a("predicted_ns", time.predicted_ns,
    "By the model of the machine that --machine names; without it there is none.",
    {.left_out = !time.predicted_ns});
}

}  // namespace lossgrid
