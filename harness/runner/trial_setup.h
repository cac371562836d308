// SPDX-License-Identifier: Apache-2.0
// One trial: a problem, its truth, an implementation and a grid. Shared by the ranks of the trial,
// and owning all it needs: a rank that hangs may outlive the frame that started it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/fault_injection.h"
#include "harness/comm/process_grid.h"
#include "harness/loss/loss_implementation.h"
#include "harness/verify/truth.h"

namespace lossgrid {

/// What one microbatch of one dp rank is made of, and its truth.
struct TrialPart {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Truth> truth;
};

struct TrialSetup {
  std::shared_ptr<const Problem> problem;  // the global batch
  std::shared_ptr<const Objective> objective;
  std::shared_ptr<const Truth> truth;
  std::string implementation_text;  // "fused:chunk_tokens=7"
  std::shared_ptr<const LossImplementation> implementation;
  Grid grid;
  std::vector<std::vector<TrialPart>> parts;  // [dp][microbatches]
  std::optional<Fault> fault;
  bool keep_outputs = false;  // of every rank, for --out
};

}  // namespace lossgrid
