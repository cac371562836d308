// SPDX-License-Identifier: Apache-2.0
// Record of a trial: one case on one grid by one implementation, with its checks and costs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "reports/record/check_record.h"
#include "reports/record/cost_record.h"

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
/// Inverse of `name`. Throws bad_input.
TrialStatus trial_status(std::string_view text);

/// True when a rank ended it before its checks: error, timeout, crashed, out_of_memory.
bool was_cut_short(TrialStatus status);

/// True if the trial failed or was cut short.
bool is_bad(TrialStatus status);

/// All of them, in the order in which a report counts them.
const std::vector<TrialStatus>& trial_statuses();

/// NaN counts as infinite, so that ratios can be ordered.
double comparable_ratio(double ratio);

/// State of a rank when its trial was cut short.
struct RankRecord {
  std::int64_t rank = 0;
  std::string state;
  std::string phase;    // empty: not known
  std::string message;  // one line
  std::vector<std::string> collectives;
  std::string detail = {};
};

template <typename A>
void fields(A& a, RankRecord& rank) {
  a.record("rank_state", "State of a rank when its trial was cut short.");
  a("rank", rank.rank, "World rank.");
  a("state", rank.state,
    "returned, threw, waiting in a collective, busy outside of one, hangs (did not come back), "
    "silent (nothing is known).",
    {.one_of = "returned threw waiting busy hangs silent"});
  a("phase", rank.phase, "Its phase; null when that is not known.",
    {.one_of = "setup plan forward backward check", .null = true});
  a("message", rank.message, "The error that it threw or received; may be empty.");
  a("collectives", rank.collectives,
    "The last ones that it entered, newest last: all_reduce sum of 8 f32, call #5 of 'tp', entered "
    "(or done).",
    {.nonempty = true, .max_items = 16});
  a("detail", rank.detail, "Lines: a traceback, and the last output of an external implementation.",
    {.nonempty = true, .left_out = rank.detail.empty()});
}

struct TrialRecord {
  std::string id;
  std::string case_name;
  nlohmann::ordered_json case_parameters;
  int tp = 1;
  int cp = 1;
  int dp = 1;
  int pp = 1;       // pipeline stages
  bool sp = false;  // sequence parallelism
  std::string cp_layout = "zigzag";
  std::string implementation;
  std::map<std::string, std::string> details;
  std::string backend = "cpu";
  std::string transport = "thread";
  TrialStatus status = TrialStatus::not_run;
  std::string reason;
  std::vector<std::string> explanation;
  std::int64_t first_failed_rank = -1;  // -1: none
  std::vector<RankRecord> ranks;

  std::int64_t tokens = 0;
  std::int64_t padded_tokens = 0;
  std::int64_t valid_tokens = 0;
  int microbatches = 1;
  std::int64_t chunks = 0;
  std::map<std::string, std::optional<double>> metrics;
  std::map<std::string, std::string> metric_reductions;
  std::map<std::string, double> branch_shares;

  std::vector<CheckRecord> checks;
  std::map<std::string, double> relative_l2;
  std::map<std::string, double> gradient_scale;
  std::vector<InvariantRecord> invariants;
  std::vector<DeterminismRecord> determinism;
  std::vector<PhaseMemoryRecord> memory;
  std::vector<CommunicationRecord> communication;
  std::vector<PhaseTimeRecord> times;
  std::map<std::string, std::string> fingerprints;
  std::string reproduce;
  std::vector<std::string> cost_mismatches;
  std::map<std::string, std::string> unjudged;  // by output (unjudged.h)

  /// "tp2cp4", and where they apply "dp2", "pp2", "sp" and ":ulysses" behind it.
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

template <typename A>
void fields(A& a, TrialRecord& trial) {
  a.record("trial", "One case on one grid by one implementation.");
  a("id", trial.id, "Stable name: case, grid, implementation, backend.", {.nonempty = true});
  a.object("case", "The problem.", {.shared = true}, [&] {
    a("name", trial.case_name, "A label, may be empty.");
    a("parameters", trial.case_parameters, "Every key of the case with its value.");
  });
  a.object("grid", "Process grid.", {}, [&] {
    a("tp", trial.tp, "Tensor-parallel size.", {.minimum = 1});
    a("cp", trial.cp, "Context-parallel size.", {.minimum = 1});
    a("dp", trial.dp, "Data-parallel size.", {.minimum = 1, .usual = "1"});
    a("pp", trial.pp, "Pipeline stages; the last has the loss.", {.minimum = 1, .usual = "1"});
    a("sp", trial.sp,
      "Sequence parallelism: hidden states are split by rows over the tensor-parallel ranks.",
      {.usual = "false"});
    a("cp_layout", trial.cp_layout,
      "Layout of rows over the context-parallel ranks, where it is not zigzag; dynamic: sizes by "
      "microbatch.",
      {.nonempty = true, .left_out = trial.cp_layout == "zigzag"});
  });
  a("implementation", trial.implementation, "Name, with its options as NAME:option=value.",
    {.nonempty = true});
  a("details", trial.details,
    "Choices that the implementation made for this problem on this machine; as \"padding\" the "
    "multiples that it needs packs padded to beside those of the case and the grid.",
    {.usual = "{}", .varies = true});
  a("backend", trial.backend, "Place where kernels ran.",
    {.one_of = "cpu cuda cuda_emulated", .usual = R"("cpu")"});
  a("transport", trial.transport, "Carrier of the collectives.",
    {.one_of = "thread mpi nccl", .usual = R"("thread")"});
  a("status", trial.status, "Outcome.");
  a("reason", trial.reason, "One line; empty when passed.", {.usual = R"("")"});
  a("explanation", trial.explanation,
    "Possible causes of the wrong numbers of a failed trial, a sentence each.",
    {.nonempty = true, .usual = "[]"});
  a("first_failed_rank", trial.first_failed_rank, "The rank that failed first; null when none did.",
    {.null = true, .usual = "null"});
  a("rank_states", trial.ranks,
    "State of every rank when the trial was cut short, by rank; empty otherwise.",
    {.usual = "[]", .varies = true});
  a.object("batch", "Size of the packed batch.", {}, [&] {
    a("tokens", trial.tokens, "True tokens.");
    a("padded_tokens", trial.padded_tokens,
      "Rows of all padded packs on this grid, dummies included.");
    a("valid_tokens", trial.valid_tokens, "Targets that are trained on.");
    a("microbatches", trial.microbatches, "Microbatches of each data-parallel rank.",
      {.minimum = 1, .usual = "1"});
  });
  a("chunks", trial.chunks,
    "Chunks of rows that a rank goes through, whose logits exist one at a time; of the rank with "
    "the most; 0 where logits are given.",
    {.usual = "0"});
  a("metrics", trial.metrics,
    "Values that the implementation returned; null for a metric without one.",
    {.minimum = {}, .usual = "{}", .shared = true});
  a("metric_reductions", trial.metric_reductions,
    "By metric: reduction of the values of parts of a batch.",
    {.one_of = "count sum mean min max global", .usual = "{}", .shared = true});
  a("branches", trial.branch_shares,
    "By branch of the objective's formula: the share of the valid tokens or sequences that took "
    "it; empty when the formula has none.",
    {.maximum = 1, .usual = "{}", .shared = true});
  a("checks", trial.checks, "Comparisons with the truth.", {.usual = "[]", .shared = true});
  a("relative_l2", trial.relative_l2,
    "By gradient (grad_hidden, grad_weight, grad_bias): |error| / |truth| over all that is "
    "compared, Euclidean norms.",
    {.null = true, .infinite = true, .usual = "{}"});
  a("gradient_scale", trial.gradient_scale,
    "By gradient (grad_logits, or grad_hidden, grad_weight and grad_bias): <got, truth> / <truth, "
    "truth> over all that is compared, which is 1 but for roundings. Without those whose truth is "
    "zero or where a number is not finite.",
    {.minimum = {}, .usual = "{}"});
  a("invariants", trial.invariants, "Properties.", {.usual = "[]", .shared = true});
  a("determinism", trial.determinism, "Bitwise verdicts.", {.usual = "[]", .shared = true});
  a("memory", trial.memory, "By rank and phase.", {.usual = "[]", .shared = true});
  a("communication", trial.communication, "By phase, group and operation.",
    {.usual = "[]", .shared = true});
  a("times", trial.times, "By phase.", {.usual = "[]"});
  a("fingerprints", trial.fingerprints, "Hexadecimal fingerprints of outputs.",
    {.pattern = "^[0-9a-f]+$", .usual = "{}", .shared = true});
  a("cost_mismatches", trial.cost_mismatches, "Costs that differ from their prediction.",
    {.one_of = "memory communication", .usual = "[]"});
  a("unjudged", trial.unjudged,
    "By value that a loaded function returns, if checks do not decide about it and its gradient: "
    "the part that they decide about.",
    {.nonempty = true, .usual = "{}"});
  a("reproduce", trial.reproduce, "A command line that runs this trial again.");
}

/// Exit code of a run with this trial alone: `cost_regression` where nothing is wrong but costs
/// that were not as predicted.
ExitCode exit_code_of(const TrialRecord& trial);

}  // namespace lossgrid
