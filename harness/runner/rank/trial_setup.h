// SPDX-License-Identifier: Apache-2.0
// `TrialSetup`: one trial: a problem, its truth, an implementation and a grid. Shared by the ranks
// of the trial. Owns all it needs: a rank that hangs may outlive the frame that started it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/faults/fault.h"
#include "harness/comm/process_grid.h"
#include "harness/device/backend.h"
#include "harness/loss/loss_implementation.h"
#include "harness/loss/loss_problem.h"
#include "harness/runner/job/recording.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

struct BundleResults;

/// One microbatch of one dp rank, and its truth.
struct TrialPart {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Truth> truth;
};

/// One microbatch of all dp ranks.
struct TrialMicrobatch {
  Grid grid;  // that of the trial; on a dynamic grid with the CP size of the microbatch
  std::vector<TrialPart> parts;  // [dp] of this grid

  /// Returns the part that a rank has a share of.
  const TrialPart& part_of(int rank) const {
    return parts[static_cast<std::size_t>(grid.dp_rank(rank))];
  }
};

struct TrialSetup {
  std::shared_ptr<const Problem> problem;      // the global batch
  std::shared_ptr<const Objective> objective;  // with the factors of a framework, if stated
  std::shared_ptr<const Truth> truth;
  std::string implementation_text;  // "fused:chunk_tokens=7"
  std::shared_ptr<const LossImplementation> implementation;
  Grid grid;
  Backend backend = Backend::cpu;
  bool over_nccl = false;  // ranks exchange device memory over NCCL
  std::vector<TrialMicrobatch> microbatches;
  // As declared_roundings returns, once ranks are about to read them: every part of every dp rank
  // is looked at, which ranks must not do each.
  std::optional<DeclaredRoundings> declared;
  std::optional<Fault> fault;
  // Parts of the reasons for which its suite lets the implementation refuse it; nullopt: any.
  std::optional<std::vector<std::string>> stated_skips;
  bool keep_outputs = false;                      // of every rank, for --out and `expected`
  std::shared_ptr<const BundleResults> expected;  // by the bundle; null: it expects nothing
  std::optional<TrialRecording> recording;
};

/// Calls f(first rank of the last stage that has a share of it, loss problem) for all packs of the
/// trial.
void for_each_part(const TrialSetup& setup, const std::function<void(int, const LossProblem&)>& f);

/// Returns the length of the longest serial float32 add chain over the vocabulary of one row, the
/// sum over TP included.
int serial_adds(const TrialSetup& setup);

/// True if float sums over ranks are added in rank order, as implementations that promise bits
/// expect. NCCL has an order of its own, which depends on the place of an element in the payload;
/// sums of two have no order.
bool adds_in_rank_order(const TrialSetup& setup);

/// Returns the roundings that the implementation declares, on the grid of the trial.
DeclaredRoundings declared_roundings(const TrialSetup& setup);

}  // namespace lossgrid
