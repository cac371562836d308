// SPDX-License-Identifier: Apache-2.0
// Costs of a trial, without running it: predicted peak bytes, FLOPs and collectives of a rank for a
// case, a grid and an implementation, and the inverse, the largest case that fits a limit. Only
// lengths are laid out; no token, logit or weight is made, so a plan of any size is cheap.
//
// Bytes and counts are those of one rank and one pack: the case as it is given, on the tp x cp
// ranks of a dp rank. With dp or microbatches a rank holds parts of it, one after the other; with
// pp only ranks of the last stage hold any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/counting_communicator.h"
#include "harness/comm/process_grid.h"
#include "harness/planner/plan/pack_layout.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

struct PlannedPhase {
  std::string name;                  // "plan", "forward", "backward"
  std::int64_t workspace_bytes = 0;  // the implementation's own
  std::int64_t held_bytes = 0;       // outputs from the forward pass on, gradients in backward
  std::int64_t peak_bytes = 0;       // inputs, workspace and held bytes
  std::int64_t flops = 0;            // of matrix products
};

struct PlannedCollective {
  std::string phase;
  std::string group;  // "tp", "cp"
  int ranks = 1;      // of the group
  Collective operation = Collective::all_reduce;
  CollectiveCount count;
  std::int64_t wire_bytes = 0;  // ring_wire_bytes
};

struct PlanRow {
  CaseSpec spec;
  Grid grid;
  std::string implementation;
  std::string skipped;  // reason when there is no plan; then nothing below is set

  std::int64_t tokens = 0;           // T
  std::int64_t padded_tokens = 0;    // T_pad
  std::int64_t chunks = 0;           // of rows, from hidden states
  std::int64_t inputs_bytes = 0;     // logits, or hidden states and weight
  std::int64_t gradients_bytes = 0;  // of the inputs
  std::int64_t outputs_bytes = 0;    // float32 columns by token
  std::array<PlannedPhase, 3> phases;
  std::vector<PlannedCollective> collectives;  // those with calls

  /// Returns the phase with the largest peak, the first of equals.
  const PlannedPhase& peak_phase() const;
  std::int64_t peak_bytes() const { return peak_phase().peak_bytes; }
};

/// Plans a trial; skips an implementation that cannot take the case. Throws bad_input where `run`
/// would refuse the case, the grid or the implementation, and for sizes whose products leave 63
/// bits.
PlanRow plan_trial(const CaseSpec& spec, const Grid& grid, const std::string& implementation);

/// Plans an implementation on a pack that is laid out for it.
PlanRow plan_implementation(const PackLayout& layout, const LossImplementation& implementation);

/// Returns the bytes that a rank of a group of n sends in ring algorithms, for a payload M as
/// communicators count it, rounded up: all-reduce 2 (n - 1) / n M, all-gather (n - 1) M of its own
/// part, reduce-scatter (n - 1) / n M, broadcast M (Thakur et al., "Optimization of collective
/// communication operations in MPICH", 2005). 0 in a group of one.
std::int64_t ring_wire_bytes(Collective operation, int ranks, std::int64_t payload_bytes);

enum class FitKey {
  seq_len,  // of a distribution, or the length where `lens` is a single one
  seqs,     // sequences of a distribution
};

struct Fit {
  std::string key;         // "seq_len", "lens", "seqs"
  std::int64_t value = 0;  // 0: nothing fits, for `reason`
  std::string reason;
  bool at_least = false;  // the largest value of the search fits
  PlanRow row;            // with that value; with the smallest where nothing fits
};

/// Returns the largest value of the key with which the peak of a rank is at most `limit_bytes`,
/// found by doubling and bisection: the peak never falls with the key. The search ends at packs of
/// 2^30 tokens. Throws bad_input where the case fixes the key, and as plan_trial.
Fit fit_case(const CaseSpec& spec, const Grid& grid, const std::string& implementation, FitKey key,
             std::int64_t limit_bytes);

}  // namespace lossgrid
