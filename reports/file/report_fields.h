// SPDX-License-Identifier: Apache-2.0
// List of the fields of a whole report (field.h): those of a run, and tables that are made of its
// trials. Internal to the writer and the schema; a reader makes tables anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/chunk_errors.h"
#include "reports/record/memory_ratios.h"
#include "reports/record/record.h"
#include "reports/record/unjudged.h"

namespace lossgrid {

/// Counts of trials by status.
struct TrialCounts {
  std::map<std::string, std::int64_t> by_status;
};

template <typename A>
void fields(A& a, TrialCounts& counts) {
  std::int64_t all = 0;
  for (const auto& [status, count] : counts.by_status) all += count;
  a("trials", all, "All of them.");
  for (const TrialStatus status : trial_statuses()) {
    const std::string key(name(status));
    a(key.c_str(), counts.by_status[key], "Trials with this status.");
  }
}

template <typename A>
void fields(A& a, ChunkErrorRow& row) {
  a.record("chunk_error", "Error of the gradient of the weight in one number of chunks.");
  a("case", row.case_title, "Name and text of the case.");
  a("chunks", row.chunks, "Number that a rank goes through; the most over the grids.",
    {.minimum = 1});
  a("implementation", row.implementation, "With its options.", {.nonempty = true});
  a("relative_l2", row.relative_l2,
    "|error| / |truth|, Euclidean norms; null when it is not finite.", {.null = true});
  a("ratio", row.ratio, "Ratio of the check grad_weight; null when it is infinite.",
    {.null = true});
}

template <typename A>
void fields(A& a, MemoryRatioRow& row) {
  a.record("memory_ratio",
           "Peak memory without inputs, the largest over ranks and phases, beside that of "
           "linear_materialized.");
  a("case", row.case_title, "Name and text of the case.");
  a("grid", row.grid, "As in --grid.", {.nonempty = true});
  a("implementation", row.implementation, "With its options.", {.nonempty = true});
  a("measured_bytes", row.measured_bytes, "Counted by the allocator.");
  a("predicted_bytes", row.predicted_bytes, "By the cost model.");
  a("measured_ratio", row.measured_ratio, "measured_bytes / those of linear_materialized.");
  a("predicted_ratio", row.predicted_ratio, "predicted_bytes / those of linear_materialized.");
}

template <typename A>
void fields(A& a, UnjudgedRow& row) {
  a.record("unjudged_output",
           "A value that a loaded function returns, and that no trial compared together with its "
           "gradient.");
  a("implementation", row.implementation, "With its options.", {.nonempty = true});
  a("output", row.output, "Name of the value.", {.nonempty = true});
  a("state", row.state, "The part that trials compared.", {.nonempty = true});
}

/// Tables of several trials.
struct ReportTables {
  std::vector<ChunkErrorRow> grad_weight_error_by_chunks;
  std::vector<MemoryRatioRow> peak_memory;
  std::vector<UnjudgedRow> unjudged_outputs;
};

template <typename A>
void fields(A& a, ReportTables& tables) {
  a("grad_weight_error_by_chunks", tables.grad_weight_error_by_chunks,
    "Rows of cases that an implementation ran in at least three numbers of chunks, by its options; "
    "the worst over the grids.");
  a("peak_memory", tables.peak_memory,
    "Rows of implementations that make their logits, on cases and grids where linear_materialized "
    "ran too.");
  a("unjudged_outputs", tables.unjudged_outputs,
    "Rows of values that the run compared in part only.");
}

template <typename A>
void fields(A& a, RunRecord& run) {
  header_fields(a, run);
  a.computed("summary", TrialCounts{run.counts_by_status()},
             "Number of trials, and of each status.");
  a("trials", run.trials, "In the order in which they ran.");
  a.computed(
      "tables",
      ReportTables{weight_error_by_chunks(run), peak_memory_ratios(run), unjudged_outputs(run)},
      "Results of several trials together.");
  list_fields(a, run);
  a.computed("score", run.mutation_score(), "The share of mutants that the suite rejects.",
             {.left_out = run.command != "mutants"});
}

}  // namespace lossgrid
