// SPDX-License-Identifier: Apache-2.0
// Record of a timing, as plain values: the samples of all implementations of one case on one grid
// with one state of the cache, taken in turn in one process, and their summaries; and in the same
// rounds the rates that memory and products reach on this machine. With its text form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/process/terminal.h"
#include "reports/record/gpu_row.h"
#include "reports/record/timing_row.h"

namespace lossgrid {

/// Name of a timing: its case, grid and state of the cache, and the backend where it is not the
/// processor.
std::string timing_id(const std::string& case_text, const std::string& grid,
                      const std::string& cache, const std::string& backend = "cpu");

/// A case on a grid with a state of the cache.
struct TimingRecord {
  std::string case_name;
  std::string case_text;
  std::string grid;  // "tp2cp1"
  std::string cache;
  std::string backend = "cpu";
  std::string transport = "thread";
  std::string timer;  // empty: not known
  std::string baseline;
  std::string no_speedup_reason;  // empty: the baseline was timed
  TimingStatus status = TimingStatus::timed;
  std::string reason;
  std::string
      not_representative_reason;  // empty: no rank shares a core or GPU, and nothing is traced
  std::int64_t cores = 0;
  std::int64_t threads_per_rank = 0;
  std::int64_t last_level_cache_bytes = 0;
  std::uint64_t order_seed = 0;
  std::int64_t min_samples = 0;
  double max_seconds = 0;
  double target_stderr_ratio = 0;
  std::int64_t warm_up_rounds = 0;
  std::int64_t rounds = 0;
  std::string stopped_by;  // empty without samples
  std::int64_t tokens = 0;
  std::string padding;  // "sequences to multiples of 16, for mine"; empty when there is none
  // The work of a problem that starts from hidden states, by any implementation: 6 N H V on all
  // ranks, three times the product of the N tokens with the weight, without padding and
  // recomputation. 0 for problems that start from logits.
  double useful_flops = 0;
  std::vector<TimingRow> rows;  // by implementation in the order of the flags, then by phase
  std::vector<SkippedTiming> skipped;
  std::vector<CeilingRow> ceilings;
  std::string ceiling_details;
  std::vector<AllReduceRow> all_reduce;
  std::vector<GpuRow> gpus = {};  // by rank; empty without GPUs

  std::string id() const { return timing_id(case_text, grid, cache, backend); }
};

template <typename A>
void fields(A& a, TimingRecord& timing) {
  a.record("timing",
           "A case on a grid with one state of the cache: all implementations and the ceilings of "
           "the machine timed in turn, so that drift cancels in ratios.");
  a.object("case", "The problem.", {}, [&] {
    a("name", timing.case_name, "A label, may be empty.");
    a("text", timing.case_text, "As in --case.", {.nonempty = true});
  });
  a("grid", timing.grid, "As in --grid.", {.nonempty = true});
  a("cache", timing.cache,
    "Content of caches before a sample: hot, left by the sample before; cold, nothing of use.",
    {.one_of = "hot cold"});
  a("backend", timing.backend, "Place where kernels ran.", {.one_of = "cpu cuda cuda_emulated"});
  a("transport", timing.transport, "Carrier of the collectives.", {.one_of = "thread mpi nccl"});
  a("timer", timing.timer,
    "Clock of the samples: CUDA events on the stream of the rank, around the phase with all that "
    "the stream waits within it, or the host's clock.",
    {.one_of = "steady_clock cuda_events", .left_out = timing.timer.empty()});
  a("baseline", timing.baseline, "The implementation that speed-ups are over.", {.nonempty = true});
  a("no_speedup_reason", timing.no_speedup_reason,
    "Reason why the baseline was not timed; empty when it was.");
  a("status", timing.status, "The worst of the rows, or the reason why there are none.");
  a("reason", timing.reason, "One line; empty when timed.");
  a.computed("representative", timing.not_representative_reason.empty(),
             "No rank shares a core or a GPU with another, and kernels run where they belong.");
  a("representative_reason", timing.not_representative_reason,
    "Reason why it is not; empty when it is.");
  a("cores", timing.cores, "Cores that the process may use.");
  a("threads_per_rank", timing.threads_per_rank, "Threads that compute for a rank.");
  a("last_level_cache_bytes", timing.last_level_cache_bytes,
    "Cache of core 0, or the second level of the GPU.", {.varies = true});
  a("order_seed", timing.order_seed, "Seed of the random order in each round.");
  a("min_samples", timing.min_samples, "As in --min-samples.", {.minimum = 2});
  a("max_seconds", timing.max_seconds, "As in --max-seconds.", {.positive = true});
  a("target_stderr_ratio", timing.target_stderr_ratio, "As in --target-stderr.",
    {.maximum = 1, .positive = true});
  a("warm_up_rounds", timing.warm_up_rounds, "Rounds before the first sample.", {.varies = true});
  a("rounds", timing.rounds, "Samples of each row.", {.varies = true});
  a("stopped_by", timing.stopped_by, "Reason for the end of the rounds; null without samples.",
    {.one_of = "target time_budget most_samples", .null = true, .varies = true});
  a("tokens", timing.tokens, "Tokens of the batch, without padding.");
  a("padding", timing.padding,
    "Multiples that the batch of all rows is padded to beside those of the case and the grid, and "
    "the implementations that need them; without it there are none.",
    {.nonempty = true, .left_out = timing.padding.empty()});
  a("useful_flops", timing.useful_flops,
    "6 N H V of all ranks: N tokens, without padding and recomputation; 0 when the case starts "
    "from logits.");
  a("rows", timing.rows, "By implementation and phase; empty when nothing was timed.");
  a("skipped", timing.skipped, "Implementations that cannot take the case.");
  a("ceilings", timing.ceilings,
    "Rates that the machine reaches at the sizes of the case, in the same rounds.");
  a("ceiling_details", timing.ceiling_details, "Kernels that ceilings are made of.",
    {.varies = true});
  a("all_reduce", timing.all_reduce,
    "All-reduce of groups with more than one rank, doing nothing else.");
  a("gpus", timing.gpus, "State of the GPUs, by rank; without it there are none.",
    {.left_out = timing.gpus.empty()});
}

/// A measurement of the meter of something that is known beforehand.
struct MeterRecord {
  std::string name;
  bool passed = false;
  double expected = 0;
  double measured = 0;
  std::string unit;
  std::string detail;
};

template <typename A>
void fields(A& a, MeterRecord& check) {
  a.record("meter_check", "Something known, measured.");
  a("name", check.name, "The quantity.", {.nonempty = true});
  a("passed", check.passed, "True if it is close enough.");
  a("expected", check.expected, "The known value.", {.minimum = {}});
  a("measured", check.measured, "The measured value.", {.minimum = {}, .varies = true});
  a("unit", check.unit, "Unit of both.");
  a("detail", check.detail, "The measurement.");
}

/// Returns one block a record: one row a phase of an implementation, then ceilings, skipped
/// implementations, problems, the straggler. At most 120 columns, or as many as `style` has; lines
/// end in
/// '\n'. Empty when there are no records.
std::string format_timing_table(const std::vector<TimingRecord>& records,
                                const TextStyle& style = {});

/// Four digits or more, whatever the size: 0.043, 12.35, 240.6, 2406.
std::string format_milliseconds(std::int64_t ns);

/// A line for each check of the meter that failed.
std::string format_meter(const std::vector<MeterRecord>& checks);

}  // namespace lossgrid
