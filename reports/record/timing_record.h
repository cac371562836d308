// SPDX-License-Identifier: Apache-2.0
// What timing leaves behind, as plain values: the samples of all implementations of one case on one
// grid with one state of the cache, taken in turn in one process, and their summaries; and in the
// same rounds what memory and products reach on this machine. Absolute times hold for the machine
// and its load at that moment; ratios of samples of the same round are what can be compared. With
// its JSON and text forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/error.h"
#include "harness/core/terminal.h"

namespace lossgrid {

/// Of a row, and of a record the worst of its rows; in this order, the worst last.
enum class TimingStatus {
  timed,
  skipped,        // cannot be timed here, with the reason
  unstable,       // fewer than 10 distinct samples
  above_ceiling,  // faster than the machine can be: the measurement or the cost model is wrong
  failed,         // the outputs of the last timed iteration are wrong
  timeout,        // the deadline passed; a rank hangs
  error,          // a rank threw
  crashed,        // the process of a rank died, or had to end: its GPU was lost
  out_of_memory,  // a rank could not get memory
};

std::string_view name(TimingStatus status);

/// True when a rank ended it before its checks: timeout and all behind it.
bool was_cut_short(TimingStatus status);

/// All of them, in their order.
const std::vector<TimingStatus>& timing_statuses();

/// What a timing alone makes a run end with.
ExitCode exit_code_of(TimingStatus status);

/// What a timing is known by: its case, grid and state of the cache, and the backend where it is
/// not the processor.
std::string timing_id(const std::string& case_text, const std::string& grid,
                      const std::string& cache, const std::string& backend = "cpu");

/// Samples of the slowest rank, in the order of the rounds.
struct TimeSummary {
  std::vector<std::int64_t> samples_ns;
  std::int64_t median_ns = 0;
  std::int64_t p20_ns = 0;
  std::int64_t p80_ns = 0;
  double stderr_ratio = 0;  // standard error of the median / median
};

/// What one rank needed. Medians of their own: the parts need not add up to the whole.
struct RankTime {
  std::int64_t rank = 0;
  std::int64_t median_ns = 0;
  std::int64_t communication_ns = 0;  // inside of collectives, waiting for other ranks included
  std::int64_t kernel_ns = 0;         // outside of them
  std::vector<std::int64_t> samples_ns;
  std::vector<std::int64_t> communication_samples_ns;
};

/// The rank with the longest kernel time.
struct Straggler {
  std::int64_t rank = 0;
  std::int64_t kernel_ns = 0;
  std::int64_t excess_ns = 0;  // over the median of the other ranks
};

/// One phase of one implementation.
struct TimingRow {
  std::string implementation;
  std::string phase;  // "forward", "backward", "forward_backward"
  TimingStatus status = TimingStatus::timed;
  std::string reason;  // one line; empty when timed
  TimeSummary time;
  std::optional<double> speedup;  // median over rounds of sample of the baseline / sample
  // Of one rank, by the cost model: read and written, and of matrix products. 0: not known, none.
  std::int64_t rank_bytes = 0;
  std::int64_t rank_flops = 0;
  // Of all ranks together, in the median time.
  std::optional<double> bytes_per_second;
  std::optional<double> flops_per_second;
  std::optional<double> useful_flops_per_second;  // of forward_backward
  double tokens_per_second = 0;
  // What bounds it: "read", "copy", "update", "read+copy", "read+update", "gemm"; empty when the
  // model does not say what it moves.
  std::string ceiling;
  std::optional<double> ceiling_ratio;  // median over rounds of time at the ceiling / sample
  bool ceiling_judged = false;          // more bytes than 4 last-level caches
  // Of the time of all ranks; none where collectives are not seen while time is taken.
  std::optional<double> communication_ratio;
  // Of the last sample, on the rank with the most; none on the processor.
  std::int64_t kernel_launches = 0;
  std::int64_t host_synchronisations = 0;
  std::vector<RankTime> rank_times;
  std::optional<Straggler> straggler;  // with more than one rank, and a communication_ratio
};

struct SkippedTiming {
  std::string implementation;
  std::string reason;
};

/// What the machine reaches with all ranks at once, at the sizes of the case.
struct CeilingRow {
  std::string name;  // "read", "copy", "update", "gemm_logits", "gemm_hidden", "gemm_weight"
  TimeSummary time;
  std::int64_t rank_bytes = 0;  // moved, or 0
  std::int64_t rank_flops = 0;  // made, or 0
  double rate_per_second = 0;   // of bytes or operations, all ranks together
};

struct AllReduceRow {
  std::string group;  // "tp", "cp"
  std::int64_t ranks = 0;
  double latency_ns = 0;        // of 4 bytes
  double bytes_per_second = 0;  // of 1 MiB
};

/// A case on a grid with a state of the cache.
struct TimingRecord {
  std::string case_name;
  std::string case_text;  // what is computed
  std::string grid;       // "tp2cp1"
  std::string cache;      // "hot", "cold"
  std::string backend = "cpu";
  std::string transport = "thread";  // what carried collectives
  std::string timer;                 // "steady_clock", "cuda_events"; empty: not said
  std::string baseline;              // what speed-ups are over
  std::string why_no_speedup;        // empty: the baseline was timed
  TimingStatus status = TimingStatus::timed;
  std::string reason;                  // one line; empty when timed
  std::string why_not_representative;  // empty: no rank shares a core or GPU, and nothing is traced
  std::int64_t cores = 0;
  std::int64_t threads_per_rank = 0;
  std::int64_t last_level_cache_bytes = 0;
  std::uint64_t order_seed = 0;
  std::int64_t min_samples = 0;
  double max_seconds = 0;
  double target_stderr_ratio = 0;
  std::int64_t warm_up_rounds = 0;
  std::int64_t rounds = 0;
  std::string stopped_by;   // "target", "time_budget", "most_samples"; empty without samples
  std::int64_t tokens = 0;  // without padding
  // "sequences to multiples of 16, for mine": how the batch of all rows was padded beside the case
  // and the grid; empty when no implementation needs it.
  std::string padding;
  // The work of a problem that starts from hidden states, whoever does it: 6 N H V on all ranks,
  // three times the product of the N tokens with the weight, without padding and recomputation. 0
  // for problems that start from logits.
  double useful_flops = 0;
  std::vector<TimingRow> rows;  // by implementation in the order that was asked for, by phase
  std::vector<SkippedTiming> skipped;
  std::vector<CeilingRow> ceilings;
  std::string ceiling_details;  // which kernels of memory or products they are made of
  std::vector<AllReduceRow>
      all_reduce;  // of groups with more than one rank, and a communication_ratio

  std::string id() const { return timing_id(case_text, grid, cache, backend); }
};

/// What the meter found when it measured what is known beforehand.
struct MeterRecord {
  std::string name;
  bool passed = false;
  double expected = 0;
  double measured = 0;
  std::string unit;
  std::string detail;
};

/// Keys with their units, fixed order; numbers that do not exist are null.
nlohmann::ordered_json timing_to_json(const TimingRecord& record);
nlohmann::ordered_json meter_to_json(const MeterRecord& record);

/// One block a record, one row a phase of an implementation, then ceilings, what was skipped and
/// what is wrong, the straggler. At most 120 columns, or as many as `style` has; lines end in
/// '\n'. Empty when there are no records.
std::string format_timing_table(const std::vector<TimingRecord>& records,
                                const TextStyle& style = {});

/// Four digits or more, whatever the size: 0.043, 12.35, 240.6, 2406.
std::string format_milliseconds(std::int64_t ns);

/// A line for each check of the meter that failed.
std::string format_meter(const std::vector<MeterRecord>& checks);

}  // namespace lossgrid
