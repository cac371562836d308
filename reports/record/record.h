// SPDX-License-Identifier: Apache-2.0
// What a run leaves behind, as plain values: trials, their checks, costs and times, and the run
// around them. Knows nothing of devices or communicators. The JSON form is in report_json.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/stage_clock.h"
#include "reports/record/ab_record.h"
#include "reports/record/timing_record.h"

namespace lossgrid {

enum class TrialStatus {
  passed,         // all checks, invariants and costs as they should be
  failed,         // something is wrong with the numbers or the costs
  skipped,        // cannot run here or by this implementation, with the reason
  error,          // a rank threw
  timeout,        // the deadline passed; a rank hangs
  crashed,        // the process of a rank died, or had to end: its GPU was lost
  out_of_memory,  // a rank could not get memory
  not_run,        // never reached
};

std::string_view name(TrialStatus status);

/// Whether a rank ended it before its checks: error, timeout, crashed, out_of_memory.
bool was_cut_short(TrialStatus status);

/// All of them, in the order in which a report counts them.
const std::vector<TrialStatus>& trial_statuses();

/// NaN counts as infinite, so that ratios can be ordered.
double comparable_ratio(double ratio);

struct WorstElement {
  std::int64_t rank = 0;
  std::int64_t sequence = -1;  // -1: does not apply
  std::int64_t token = -1;     // offset of the predicting token (row) in its sequence
  std::int64_t vocab_id = -1;
  double got = 0;
  double want = 0;
};

/// One compared tensor. ratio = error / bound of the worst element; passed when it is <= 1.
struct CheckRecord {
  // "loss", "logprobs", "entropy", "vocab_min", "vocab_max", "metric.NAME"; "grad_logits" and
  // "grad_logits_bias", or "grad_hidden", "grad_hidden_l2", "grad_hidden_bias" and the same of
  // "grad_weight"
  std::string name;
  bool passed = false;
  double ratio = 0;  // infinite when the element is not a number
  double error_abs = 0;
  double bound_abs = 0;
  std::optional<WorstElement> worst;
  std::int64_t compared = 0;
  std::int64_t beyond_bound = 0;  // elements with ratio > 1
};

struct InvariantRecord {
  std::string name;
  std::string status;  // "passed", "failed", "not_run"
  std::string detail;  // empty when passed
};

struct DeterminismRecord {
  std::string name;     // "run_to_run", "packing", "tp_size"
  std::string verdict;  // "same_bits", "different_bits", "not_compared"
  bool claimed = false;
  std::string detail;
};

struct PhaseMemoryRecord {
  std::int64_t rank = 0;
  std::string phase;  // "plan", "forward", "backward"
  // Without inputs; none of an external implementation without a model of its costs.
  std::optional<std::int64_t> predicted_peak_bytes = 0;
  std::int64_t measured_peak_bytes = 0;  // without inputs
  std::int64_t measured_peak_with_inputs_bytes = 0;
  std::int64_t measured_allocations = 0;             // buffers asked for during the phase
  std::map<std::string, std::int64_t> by_tag_bytes;  // live at the peak
  // What the driver of a GPU says at the end of the phase, compared with before the trial: more in
  // use on the whole GPU, and how much of that is none of the buffers' pool, but of libraries,
  // communicators and other processes.
  std::optional<std::int64_t> device_used_bytes = {};
  std::optional<std::int64_t> device_other_bytes = {};
};

struct CommunicationRecord {
  // The first rank of the last pipeline stage, or the first one that differs from the prediction.
  std::int64_t rank = 0;
  // "plan", "forward", "backward"; "batch": for the whole global batch, denominators before and
  // loss and metrics after; the shape of each pack for pipeline stages.
  std::string phase;
  // "tp", "cp", "dp", "pp"; of an external implementation also "world" and "other".
  std::string group;
  std::string operation;                            // "all_reduce", ...
  std::optional<std::int64_t> predicted_calls = 0;  // none as above
  std::int64_t measured_calls = 0;
  std::optional<std::int64_t> predicted_payload_bytes = 0;  // the same
  std::int64_t measured_payload_bytes = 0;
};

struct PhaseTimeRecord {
  std::string phase;
  std::int64_t max_over_ranks_ns = 0;  // one run, coarse
  std::int64_t predicted_flops = 0;    // of matrix products, on the rank with the most
  std::int64_t kernel_launches = 0;    // of a GPU, on the rank with the most
  std::int64_t host_synchronisations = 0;
};

/// Where a rank was when its trial was cut short.
struct RankRecord {
  std::int64_t rank = 0;
  // "returned", "threw", "waiting" (in a collective), "busy", "hangs" (did not come back), "silent"
  // (nothing is known of it)
  std::string state;
  std::string phase;    // "setup", "plan", "forward", "backward", "check"; empty: not known
  std::string message;  // one line: what it threw or was told; may be empty
  // The last ones, newest last: "all_reduce sum of 8 f32, call #5 of 'tp', entered" (or "done").
  std::vector<std::string> collectives;
  // Lines: a traceback, and what an external implementation printed last. Empty where there is
  // nothing of the kind.
  std::string detail = {};
};

struct TrialRecord {
  std::string id;  // stable: case text, grid, implementation, backend
  std::string case_name;
  nlohmann::ordered_json case_parameters;
  int tp = 1;
  int cp = 1;
  int dp = 1;
  int pp = 1;       // pipeline stages
  bool sp = false;  // sequence parallelism
  std::string implementation;
  std::map<std::string, std::string> details;  // choices that the implementation made here
  std::string backend = "cpu";
  std::string transport = "thread";
  TrialStatus status = TrialStatus::not_run;
  std::string reason;  // one line; empty when passed
  // What would explain the wrong numbers of a failed trial, a sentence each.
  std::vector<std::string> explanation;
  std::int64_t first_failed_rank = -1;
  std::vector<RankRecord> ranks;  // by rank; only of a trial that was cut short

  std::int64_t tokens = 0;
  std::int64_t padded_tokens = 0;
  std::int64_t valid_tokens = 0;
  int microbatches = 1;     // of each dp rank
  std::int64_t chunks = 0;  // of rows, that a rank goes through (the most); 0: logits are given
  std::map<std::string, std::optional<double>> metrics;  // as the implementation returned them
  // By metric: how parts of a batch join: "count", "sum", "mean", "min", "max", "global".
  std::map<std::string, std::string> metric_reductions;
  // By branch of the objective's formula: share in [0, 1] of the valid tokens or sequences that
  // took it. Empty when the formula has none.
  std::map<std::string, double> branch_shares;

  std::vector<CheckRecord> checks;
  // Euclidean norms |error| / |truth| of "grad_hidden" and "grad_weight", over all that is
  // compared.
  std::map<std::string, double> relative_l2;
  // <got, truth> / <truth, truth> of "grad_logits", or of "grad_hidden" and "grad_weight", over all
  // that is compared: 1 but for roundings. Without those whose truth is zero or where a number is
  // not finite.
  std::map<std::string, double> gradient_scale;
  std::vector<InvariantRecord> invariants;
  std::vector<DeterminismRecord> determinism;
  std::vector<PhaseMemoryRecord> memory;
  std::vector<CommunicationRecord> communication;
  std::vector<PhaseTimeRecord> times;
  std::map<std::string, std::string> fingerprints;  // hex, of outputs
  std::string reproduce;                            // a command line
  // "memory", "communication": what differs from its prediction.
  std::vector<std::string> cost_mismatches;

  /// "tp2cp4", and where they apply "dp2", "pp2" and "sp" behind it.
  std::string grid() const;
  /// Name and text of the case.
  std::string case_title() const;
  /// The same for trials of the same case.
  std::string case_key() const;
  /// The largest ratio of the checks, 0 when there is none.
  double max_ratio() const;
  std::int64_t max_peak_bytes() const;       // over ranks and phases, without inputs
  std::int64_t total_payload_bytes() const;  // of the recorded rank
  std::int64_t total_calls() const;
};

/// What a trial alone makes a run end with: `cost_regression` where nothing is wrong but costs that
/// were not as predicted.
ExitCode exit_code_of(const TrialRecord& trial);

/// A mutant and what became of it.
struct MutantRecord {
  std::string name;
  std::string catalogue_id;  // "M4", empty when it has none
  std::string what;          // what is wrong with it; of a control: what is done another way
  bool is_control = false;   // right, and must not be rejected
  bool rejected = false;
  std::string rejected_by_case;
  std::string rejected_by_grid;
  std::vector<std::string> rejected_by_checks;
  std::string reproduce;
  std::int64_t trials = 0;
};

/// How many mutants a suite rejects. One that no trial reached counts as not rejected, a control
/// that no trial reached as not accepted.
struct MutationScore {
  std::int64_t rejected = 0;
  std::int64_t total = 0;
  std::int64_t controls_accepted = 0;
  std::int64_t controls_total = 0;
};

/// How much a run sets out to do.
struct PlannedWork {
  std::int64_t trials = 0;
  std::int64_t timings = 0;
};

struct RunRecord {
  std::string command;  // "run", "bench", "mutants", "replay", "ab"
  std::vector<std::string> arguments;
  std::string suite;
  std::string started_utc;
  std::string ended_utc;
  std::string status = "complete";  // "complete", "partial"
  int exit_code = 0;
  std::int64_t started_ns = 0;  // on the steady clock
  std::int64_t wall_ns = 0;     // up to the end, without the report's last writing; 0: not known
  StageTimes stages;            // of it
  nlohmann::ordered_json environment;
  std::vector<TrialRecord> trials;
  std::vector<MutantRecord> mutants;
  std::vector<TimingRecord> timings;
  std::vector<MeterRecord> meter;  // of runs that time
  std::vector<AbRecord> ab;        // of command ab
  // Of a run that ended in the middle: the trial or timing that had begun, and the command line
  // that runs it again; empty where it has none, or nothing had begun.
  std::string begun_id;
  std::string begun_reproduce;
  // What a run that ended in the middle had set out to do.
  std::optional<PlannedWork> planned = {};

  /// Every status, zeros included.
  std::map<std::string, std::int64_t> counts_by_status() const;
  MutationScore mutation_score() const;
};

}  // namespace lossgrid
