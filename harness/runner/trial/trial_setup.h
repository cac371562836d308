// SPDX-License-Identifier: Apache-2.0
// One trial: a problem, its truth, an implementation and a grid. Shared by the ranks of the trial,
// and owning all it needs: a rank that hangs may outlive the frame that started it.
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
#include "harness/problem/case/scale_factor.h"
#include "harness/runner/recording.h"
#include "harness/verify/declared_roundings.h"
#include "harness/verify/truth.h"

namespace lossgrid {

/// What one microbatch of one dp rank is made of, and its truth.
struct TrialPart {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Truth> truth;
};

struct TrialSetup {
  std::shared_ptr<const Problem> problem;      // the global batch
  std::shared_ptr<const Objective> objective;  // with the factors of a framework, if stated
  std::shared_ptr<const Truth> truth;
  std::string implementation_text;  // "fused:chunk_tokens=7"
  std::shared_ptr<const LossImplementation> implementation;
  Grid grid;
  Backend backend = Backend::cpu;
  bool over_nccl = false;                     // what devices hold, between ranks
  std::vector<std::vector<TrialPart>> parts;  // [dp][microbatches]
  std::optional<Fault> fault;
  bool keep_outputs = false;  // of every rank, for --out
  std::optional<TrialRecording> recording;
};

/// What an implementation is asked to do with `batch`, the pack of `problem` on `grid`. All but
/// `grid` outlive the result.
LossProblem make_loss_problem(const Problem& problem, const PackedBatch& batch, const Grid& grid,
                              const Objective& objective, Backend backend = Backend::cpu);

/// Why an implementation cannot take problems that start from hidden states, or from logits; empty
/// when it can.
std::string why_other_inputs(const LossImplementation& implementation, bool from_hidden);

/// Why a problem cannot be padded as an implementation needs on this grid; empty when it can.
std::string why_not_padded(const Problem& problem, const Padding& padding, const Grid& grid);

/// The first reason of these two.
std::string why_not_given(const LossImplementation& implementation, const Problem& problem,
                          const Grid& grid);

/// Calls f(dp rank, loss problem) for all microbatches of the trial.
void for_each_part(const TrialSetup& setup,
                   const std::function<void(std::size_t, const LossProblem&)>& f);

/// What the factors of a framework are made of on this grid.
ScaleSizes scale_sizes(const Problem& problem, const Grid& grid);

/// Longest serial float32 add chain over the vocabulary of one row, the sum over TP included.
int serial_adds(const TrialSetup& setup);

/// Whether float sums over ranks are added in rank order, as an implementation expects that
/// promises bits. NCCL has an order of its own, which depends on where in a payload an element
/// stands; sums of two have no order.
bool adds_in_rank_order(const TrialSetup& setup);

/// The roundings that the implementation declares, on the grid of the trial.
DeclaredRoundings declared_roundings(const TrialSetup& setup);

}  // namespace lossgrid
