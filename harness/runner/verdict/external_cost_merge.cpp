// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/external_cost_merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace lossgrid {
namespace {

constexpr std::array<const char*, 2> kMeasuredPhases{"forward", "backward"};

using CallKey = std::pair<std::string, std::string>;  // group, operation
using CallCounts = std::map<CallKey, CollectiveCount>;

void add_calls(const std::vector<MeasuredCalls>& calls, CallCounts& into) {
  for (const MeasuredCalls& entry : calls) {
    CollectiveCount& count = into[{entry.group, entry.operation}];
    count.calls += entry.calls;
    count.payload_bytes += entry.payload_bytes;
  }
}

CollectiveCount count_of(const CallCounts& counts, const CallKey& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? CollectiveCount{} : found->second;
}

/// Calls of one phase on one rank, over all of its microbatches.
struct RankCalls {
  CallCounts measured;
  CallCounts predicted;
  bool has_model = false;

  bool differ(const CallKey& key) const {
    return has_model && count_of(measured, key) != count_of(predicted, key);
  }
};

RankCalls calls_of(const RankResult& rank, const char* phase) {
  RankCalls calls;
  for (const PackFindings& pack : rank.packs) {
    const auto found = pack.measured.find(phase);
    if (found == pack.measured.end()) continue;
    add_calls(found->second.calls, calls.measured);
    if (!found->second.predicted.calls) continue;
    calls.has_model = true;
    add_calls(*found->second.predicted.calls, calls.predicted);
  }
  return calls;
}

/// Returns the groups and operations that a rank called or should have called.
CallCounts keys_of(const std::vector<RankCalls>& ranks, std::size_t shown) {
  CallCounts keys = ranks[shown].measured;
  keys.insert(ranks[shown].predicted.begin(), ranks[shown].predicted.end());
  for (const RankCalls& rank : ranks) {
    if (!rank.has_model) continue;
    keys.insert(rank.measured.begin(), rank.measured.end());
    keys.insert(rank.predicted.begin(), rank.predicted.end());
  }
  return keys;
}

std::string describe_peak(std::size_t rank, const char* phase, std::int64_t measured,
                          std::int64_t predicted) {
  return fmt::format("memory: rank {} {} needed {} bytes, predicted {}", rank, phase, measured,
                     predicted);
}

std::string describe_calls(std::size_t rank, const char* phase, const CallKey& key,
                           const CollectiveCount& measured, const CollectiveCount& predicted) {
  return fmt::format("communication: rank {} {} {} {}: {} calls and {} bytes, predicted {} and {}",
                     rank, phase, key.first, key.second, measured.calls, measured.payload_bytes,
                     predicted.calls, predicted.payload_bytes);
}

}  // namespace

bool measured_themselves(const std::vector<RankResult>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const RankResult& rank) {
    return !rank.packs.empty() && !rank.packs.front().measured.empty();
  });
}

std::string merge_external_memory(const std::vector<RankResult>& ranks, double tolerance,
                                  TrialRecord& record) {
  std::string mismatch;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const char* phase : kMeasuredPhases) {
      PhaseMemoryRecord row;
      row.rank = static_cast<std::int64_t>(r);
      row.phase = phase;
      row.predicted_peak_bytes = std::nullopt;
      row.measured_peak_bytes = -1;
      for (const PackFindings& pack : ranks[r].packs) {
        const auto found = pack.measured.find(phase);
        if (found == pack.measured.end()) continue;
        const std::int64_t peak = found->second.peak_bytes;
        const std::optional<std::int64_t> predicted = found->second.predicted.peak_bytes;
        if (peak > row.measured_peak_bytes) {
          row.measured_peak_bytes = peak;
          row.predicted_peak_bytes = predicted;
        }
        row.measured_peak_with_inputs_bytes =
            std::max(row.measured_peak_with_inputs_bytes, peak + pack.input_bytes);
        if (!predicted || !mismatch.empty()) continue;
        const auto expected = static_cast<double>(*predicted);
        if (std::abs(static_cast<double>(peak) - expected) > tolerance * expected) {
          mismatch = describe_peak(r, phase, peak, *predicted);
        }
      }
      row.measured_peak_bytes = std::max<std::int64_t>(0, row.measured_peak_bytes);
      record.memory.push_back(std::move(row));
    }
  }
  return mismatch;
}

std::string merge_external_communication(std::size_t first_shown,
                                         const std::vector<RankResult>& ranks,
                                         TrialRecord& record) {
  std::string mismatch;
  for (const char* phase : kMeasuredPhases) {
    std::vector<RankCalls> all;
    for (const RankResult& rank : ranks) all.push_back(calls_of(rank, phase));
    for (const auto& [key, ignored] : keys_of(all, first_shown)) {
      std::size_t shown = first_shown;
      for (std::size_t r = 0; r < all.size(); ++r) {
        if (!all[r].differ(key)) continue;
        shown = r;
        break;
      }
      const RankCalls& rank = all[shown];
      const CollectiveCount measured = count_of(rank.measured, key);
      const CollectiveCount predicted = count_of(rank.predicted, key);
      using Known = std::optional<std::int64_t>;
      record.communication.push_back(
          {.rank = static_cast<std::int64_t>(shown),
           .phase = phase,
           .group = key.first,
           .operation = key.second,
           .predicted_calls = rank.has_model ? Known(predicted.calls) : std::nullopt,
           .measured_calls = measured.calls,
           .predicted_payload_bytes =
               rank.has_model ? Known(predicted.payload_bytes) : std::nullopt,
           .measured_payload_bytes = measured.payload_bytes});
      if (mismatch.empty() && rank.differ(key)) {
        mismatch = describe_calls(shown, phase, key, measured, predicted);
      }
    }
  }
  return mismatch;
}

}  // namespace lossgrid
