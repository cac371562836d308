// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/cost_merge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/core/error.h"
#include "harness/problem/batch/sharding.h"
#include "harness/runner/verdict/external_cost_merge.h"

namespace lossgrid {
namespace {

constexpr std::array<const char*, 3> kTrialPhases{"plan", "forward", "backward"};

const PhaseCost& phase_cost(const Cost& cost, std::size_t phase) {
  return phase == 0 ? cost.plan : phase == 1 ? cost.forward : cost.backward;
}

/// Error above which a memory model is wrong, relative to its prediction.
constexpr double kMemoryTolerance = 0.05;

void add_counts(CollectiveCounts& into, const CollectiveCounts& counts) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto operation = static_cast<Collective>(c);
    into.add(operation, counts[operation].calls, counts[operation].payload_bytes);
  }
}

/// Collectives of one group in one phase, by rank.
struct GroupCounts {
  std::string phase;
  std::string group;
  std::vector<CollectiveCounts> measured = {};
  std::vector<CollectiveCounts> predicted = {};
};

std::vector<GroupCounts> all_groups(const std::vector<RankResult>& ranks) {
  std::vector<GroupCounts> groups{{"batch", "dp"}, {"batch", "pp"}};
  for (const RankResult& rank : ranks) {
    groups[0].measured.push_back(rank.batch_dp);
    groups[0].predicted.push_back(rank.predicted_batch_dp);
    groups[1].measured.push_back(rank.batch_pp);
    groups[1].predicted.push_back(rank.predicted_batch_pp);
  }
  for (std::size_t p = 0; p < kTrialPhases.size(); ++p) {
    GroupCounts tp{kTrialPhases[p], "tp"};
    GroupCounts cp{kTrialPhases[p], "cp"};
    for (const RankResult& rank : ranks) {
      for (GroupCounts* group : {&tp, &cp}) {
        group->measured.emplace_back();
        group->predicted.emplace_back();
      }
      for (const PackFindings& pack : rank.packs) {
        const RankCounts& measured = pack.counts.at(kTrialPhases[p]);
        const PhaseCost& predicted = phase_cost(pack.predicted, p);
        add_counts(tp.measured.back(), measured.tp);
        add_counts(cp.measured.back(), measured.cp);
        add_counts(tp.predicted.back(), predicted.tp);
        add_counts(cp.predicted.back(), predicted.cp);
      }
    }
    groups.push_back(std::move(tp));
    groups.push_back(std::move(cp));
  }
  return groups;
}

/// Adds the memory of a rank whose stage has no part of the loss; the prediction is 0.
std::string merge_idle_memory(std::size_t rank, std::int64_t peak_bytes, TrialRecord& record) {
  for (const char* phase : kTrialPhases) {
    PhaseMemoryRecord row;
    row.rank = static_cast<std::int64_t>(rank);
    row.phase = phase;
    row.measured_peak_bytes = row.measured_peak_with_inputs_bytes = peak_bytes;
    record.memory.push_back(std::move(row));
  }
  if (peak_bytes == 0) return "";
  return fmt::format("memory: rank {} has no part of the loss and needed {} bytes", rank,
                     peak_bytes);
}

/// Returns the first text that compare(rank, phase, counted work, predicted cost) has for a pack;
/// empty when all texts are.
template <typename Compare>
std::string first_difference(const std::vector<RankResult>& ranks, Compare&& compare) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const PackFindings& pack : ranks[r].packs) {
      for (std::size_t p = 0; p < kTrialPhases.size(); ++p) {
        const char* phase = kTrialPhases[p];
        const std::string difference =
            compare(r, phase, pack.device_work.at(phase), phase_cost(pack.predicted, p));
        if (!difference.empty()) return difference;
      }
    }
  }
  return "";
}

}  // namespace

std::string merge_memory(const std::vector<RankResult>& ranks, TrialRecord& record) {
  if (measured_themselves(ranks)) return merge_external_memory(ranks, kMemoryTolerance, record);
  std::string mismatch;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].packs.empty()) {
      const std::string needed = merge_idle_memory(r, ranks[r].peak_bytes, record);
      if (mismatch.empty()) mismatch = needed;
      continue;
    }
    for (std::size_t p = 0; p < kTrialPhases.size(); ++p) {
      PhaseMemoryRecord largest;
      largest.measured_peak_with_inputs_bytes = -1;
      for (const PackFindings& pack : ranks[r].packs) {
        const PhaseMemory& measured = pack.memory[p];
        const std::int64_t outputs = pack.output_bytes.at(kTrialPhases[p]);
        const std::int64_t predicted = phase_cost(pack.predicted, p).workspace_bytes;
        const std::int64_t peak = measured.peak_bytes - pack.input_bytes;
        if (measured.peak_bytes > largest.measured_peak_with_inputs_bytes) {
          largest = {.rank = static_cast<std::int64_t>(r),
                     .phase = kTrialPhases[p],
                     .predicted_peak_bytes = predicted + outputs,
                     .measured_peak_bytes = peak,
                     .measured_peak_with_inputs_bytes = measured.peak_bytes,
                     .measured_allocations = measured.allocations,
                     .by_tag_bytes = measured.by_tag_bytes};
          if (measured.driver) {
            largest.device_used_bytes = measured.driver->used_bytes;
            largest.device_other_bytes = measured.driver->other_bytes();
          }
        }
        // Outputs are the harness's own: the prediction is judged by the workspace alone.
        const auto workspace = static_cast<double>(peak - outputs);
        const auto expected = static_cast<double>(predicted);
        if (mismatch.empty() && std::abs(workspace - expected) > kMemoryTolerance * expected) {
          mismatch =
              fmt::format("memory: rank {} {} needed {:.0f} bytes of workspace, predicted {:.0f}",
                          r, kTrialPhases[p], workspace, expected);
        }
      }
      record.memory.push_back(largest);
    }
  }
  return mismatch;
}

std::string merge_communication(const Grid& grid, const std::vector<RankResult>& ranks,
                                TrialRecord& record) {
  const auto first_shown = static_cast<std::size_t>(grid.first_of_last_stage());
  if (measured_themselves(ranks)) return merge_external_communication(first_shown, ranks, record);
  std::string mismatch;
  for (const GroupCounts& group : all_groups(ranks)) {
    for (int c = 0; c < kCollectives; ++c) {
      const auto operation = static_cast<Collective>(c);
      std::size_t shown = first_shown;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (group.predicted[r][operation] != group.measured[r][operation]) {
          shown = r;
          break;
        }
      }
      const CollectiveCount predicted = group.predicted[shown][operation];
      const CollectiveCount measured = group.measured[shown][operation];
      if (predicted == CollectiveCount{} && measured == CollectiveCount{}) continue;
      record.communication.push_back({.rank = static_cast<std::int64_t>(shown),
                                      .phase = group.phase,
                                      .group = group.group,
                                      .operation = std::string(name(operation)),
                                      .predicted_calls = predicted.calls,
                                      .measured_calls = measured.calls,
                                      .predicted_payload_bytes = predicted.payload_bytes,
                                      .measured_payload_bytes = measured.payload_bytes});
      if (mismatch.empty() && predicted != measured) {
        mismatch = fmt::format(
            "communication: rank {} {} {} {}: {} calls and {} bytes, predicted {} and {}", shown,
            group.phase, group.group, name(operation), measured.calls, measured.payload_bytes,
            predicted.calls, predicted.payload_bytes);
      }
    }
  }
  return mismatch;
}

std::string compare_flops(const Grid& grid, std::int64_t vocab,
                          const std::vector<RankResult>& ranks) {
  return first_difference(
      ranks,
      [&](std::size_t r, const char* phase, const DeviceWork& counted,
          const PhaseCost& cost) -> std::string {
        const VocabShard shard = vocab_shard(vocab, grid.tp, grid.tp_rank(static_cast<int>(r)));
        const std::int64_t predicted = cost.flops / shard.width * shard.valid();
        if (counted.flops == predicted) return "";
        return fmt::format("flops: rank {} {}: {} FLOPs of matrix products, predicted {}", r, phase,
                           counted.flops, predicted);
      });
}

std::string compare_traffic(const std::vector<RankResult>& ranks) {
  return first_difference(
      ranks,
      [](std::size_t r, const char* phase, const DeviceWork& counted,
         const PhaseCost& cost) -> std::string {
        const RowTraffic& rows = counted.rows;
        const std::int64_t read_bytes = cost.read_bytes + cost.cached_read_bytes;
        if (rows.read_bytes <= read_bytes && rows.written_bytes <= cost.written_bytes) return "";
        return fmt::format(
            "traffic: rank {} {}: kernels read {} and wrote {} bytes of rows, predicted {} and {}",
            r, phase, rows.read_bytes, rows.written_bytes, read_bytes, cost.written_bytes);
      });
}

void merge_times(const std::vector<RankResult>& ranks, TrialRecord& record) {
  for (std::size_t p = 0; p < kTrialPhases.size(); ++p) {
    std::int64_t slowest = 0;
    std::int64_t most_flops = 0;
    DeviceWork most;
    for (const RankResult& rank : ranks) {
      std::int64_t time = 0;
      std::int64_t flops = 0;
      DeviceWork work;
      for (const PackFindings& pack : rank.packs) {
        time += pack.time_ns.at(kTrialPhases[p]);
        flops += phase_cost(pack.predicted, p).flops;
        work += pack.device_work.at(kTrialPhases[p]);
      }
      slowest = std::max(slowest, time);
      most_flops = std::max(most_flops, flops);
      most.launches = std::max(most.launches, work.launches);
      most.synchronisations = std::max(most.synchronisations, work.synchronisations);
    }
    record.times.push_back(
        {kTrialPhases[p], slowest, most_flops, most.launches, most.synchronisations});
  }
  for (const RankResult& rank : ranks) {
    std::int64_t chunks = 0;
    for (const PackFindings& pack : rank.packs) chunks += pack.predicted.chunks;
    record.chunks = std::max(record.chunks, chunks);
  }
}

}  // namespace lossgrid
