// SPDX-License-Identifier: Apache-2.0
// Costs of a trial, without running it: predicted peak bytes, FLOPs and collectives of a rank for a
// case, a grid and an implementation, and the inverse, the largest case that fits a limit. Only
// lengths are laid out; no token, logit or weight is made, so a plan of any size is cheap.
//
// Bytes and counts are for one rank and one pack: the whole case on the tp x cp ranks of a dp rank.
// With dp or microbatches a rank holds parts of the case, one after the other; with pp only ranks
// of the last stage hold parts.
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
  std::int64_t workspace_bytes = 0;  // workspace of the implementation
  std::int64_t held_bytes = 0;       // outputs from the forward pass on, gradients in backward
  std::int64_t peak_bytes = 0;       // inputs, workspace and held bytes
  std::int64_t flops = 0;            // FLOPs of matrix products
};

struct PlannedCollective {
  std::string phase;
  std::string group;  // "tp", "cp"
  int ranks = 1;      // ranks of the group
  Collective operation = Collective::all_reduce;
  CollectiveCount count;
  std::int64_t wire_bytes = 0;  // ring_wire_bytes
};

struct PlanRow {
  CaseSpec spec;
  Grid grid;
  std::string implementation;
  std::string skipped;  // reason for a missing plan; then no member below is set

  std::int64_t tokens = 0;           // T
  std::int64_t padded_tokens = 0;    // T_pad
  std::int64_t chunks = 0;           // chunks of rows, from hidden states
  std::int64_t inputs_bytes = 0;     // logits, or hidden states and weight
  std::int64_t gradients_bytes = 0;  // gradients of the inputs
  std::int64_t outputs_bytes = 0;    // float32 columns by token
  std::array<PlannedPhase, 3> phases;
  std::vector<PlannedCollective> collectives;  // collectives with calls

  /// Returns the phase with the largest peak; the first of equal phases.
  const PlannedPhase& peak_phase() const;
  std::int64_t peak_bytes() const { return peak_phase().peak_bytes; }
};

/// Plans a trial; skips an implementation that cannot take the case. Throws bad_input if `run`
/// would refuse the case, the grid or the implementation, and for sizes whose products exceed 63
/// bits.
PlanRow plan_trial(const CaseSpec& spec, const Grid& grid, const std::string& implementation);

/// Plans an implementation on a pack laid out for it.
PlanRow plan_implementation(const PackLayout& layout, const LossImplementation& implementation);

/// Returns the bytes that a rank of a group of n sends in ring algorithms, for a payload M as
/// communicators count it, rounded up: all-reduce 2 (n - 1) / n M, all-gather (n - 1) M of its own
/// part, reduce-scatter (n - 1) / n M, broadcast M (Thakur et al., "Optimization of collective
/// communication operations in MPICH", 2005). 0 in a group of one.
std::int64_t ring_wire_bytes(Collective operation, int ranks, std::int64_t payload_bytes);

enum class FitKey {
  seq_len,  // length of a distribution, or the only length in `lens`
  seqs,     // sequences of a distribution
};

struct Fit {
  std::string key;         // "seq_len", "lens", "seqs"
  std::int64_t value = 0;  // 0: no value fits, see `reason`
  std::string reason;
  bool at_least = false;  // the largest value of the search fits
  PlanRow row;            // plan with the value; with the smallest value if none fits
};

/// Returns the largest value of the key with which the peak of a rank is at most `limit_bytes`,
/// found by doubling and bisection: the peak never falls with the key. The search ends at packs of
/// 2^30 tokens. Throws bad_input if the case fixes the key, and the errors of plan_trial.
Fit fit_case(const CaseSpec& spec, const Grid& grid, const std::string& implementation, FitKey key,
             std::int64_t limit_bytes);

}  // namespace lossgrid
