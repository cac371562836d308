// SPDX-License-Identifier: Apache-2.0
// `PackFindings`: everything that one rank found about one pack: comparisons with the truth,
// invariants, measured costs, fingerprints. Plain data; checks fill it and verdicts merge it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/counting_communicator.h"
#include "harness/device/device.h"
#include "harness/device/device_work.h"
#include "harness/loss/loss_implementation.h"
#include "harness/loss/train_step.h"
#include "harness/verify/checks/linear_checks.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/diagnosis/failed_entropies.h"
#include "harness/verify/diagnosis/failed_logprobs.h"
#include "reports/record/invariants.h"

namespace lossgrid {

/// Collectives of one phase on one rank, by group.
struct RankCounts {
  CollectiveCounts tp;
  CollectiveCounts cp;
};

/// Condition that outputs must meet whatever the truth is.
struct Invariant {
  std::string name;
  enum class Status { passed, failed, not_run } status = Status::passed;
  std::string detail = {};  // reason of failed and not_run
};

struct PackFindings {
  ObjectiveResult result;
  std::int64_t owned_labels = 0;
  Cost predicted;

  std::vector<Check> checks;                    // per-token outputs
  FailedLogprobs failed_logprobs;               // details of the first of these checks
  FailedEntropies failed_entropies;             // and of that of the entropies
  std::optional<GradientFindings> grad_logits;  // the one of the two that the pack starts from
  std::optional<LinearFindings> grad_hidden;
  std::vector<Invariant> invariants;

  std::int64_t input_bytes = 0;
  // By phase: "plan", "forward", "backward".
  std::map<std::string, std::int64_t> output_bytes;  // of the harness
  std::vector<PhaseMemory> memory;                   // in the order of the phases
  std::map<std::string, RankCounts> counts;
  std::map<std::string, std::int64_t> time_ns;
  std::map<std::string, DeviceWork> device_work;
  std::map<std::string, PhaseMeasurement> measured;  // of plans that measure themselves
  StepReport step;                                   // of a train step of loaded code

  std::uint64_t output_bits = 0;       // all per-token outputs that have a truth
  std::uint64_t own_logprob_bits = 0;  // log-probabilities of the own rows; add up over CP
  std::map<std::string, std::uint64_t> gradient_bits;  // see RankTensors
  bool same_bits_again = false;                        // in a second run of the pack

  // Kept for --out only; empty where they are not given.
  std::vector<double> logprobs;      // of the own rows, [T_c]
  std::vector<double> entropy;       // of the own rows, [T_c]
  std::vector<double> row_gradient;  // [T_c, V_t] of logits, or [hidden_rows, H] of hidden states

  /// Adds an invariant; `detail` is kept where it does not hold.
  void add_invariant(const InvariantEntry& invariant, bool holds, const std::string& detail);
  void add_not_run(const InvariantEntry& invariant, const std::string& reason);
};

/// Returns "3 elements, first: rank 0, sequence 1, token 2, vocab id 7". A row of hidden states has
/// no vocab id, an id of the weight no sequence and token.
std::string describe_misplaced(std::int64_t count, const ElementPlace& first);

/// Returns the bits of loss and metrics, in the order of their names.
std::uint64_t fingerprint_result(const ObjectiveResult& result);

}  // namespace lossgrid
