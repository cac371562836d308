// SPDX-License-Identifier: Apache-2.0
// What one rank does with one pack of a trial: make its shard, plan, forward, backward, check
// everything it made, then run again to see whether the bits stay. Only the implementation's own
// collectives are counted. A rank that cannot go on throws; the transport then fails the others.
// Packs of a rank share its device: what one leaves there is found in the memory of the next.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/comm/counting_communicator.h"
#include "harness/comm/faults/fault_injection.h"
#include "harness/device/device.h"
#include "harness/device/device_work.h"
#include "harness/runner/trial/trial_setup.h"
#include "harness/verify/failed_logprobs.h"
#include "harness/verify/linear_checks.h"
#include "harness/verify/shard_checks.h"

namespace lossgrid {

struct RankCounts {
  CollectiveCounts tp;
  CollectiveCounts cp;
};

/// The rank that runs packs, and what its communicators count into.
struct PackRank {
  std::int64_t rank;  // of the world
  int tp_rank;
  int cp_rank;
  Communicator& tp;
  Communicator& cp;
  Communicator& stage;  // all ranks that run packs; not counted
  RankCounts& counts;
  // Of a problem that starts from hidden states: the gradient of this shard of the weight, as the
  // packs before left it; run_pack adds its own.
  std::span<float> weight_gradient;
  FaultInjector* faults = nullptr;  // null: none
};

struct Invariant {
  std::string name;
  enum class Status { passed, failed, not_run } status = Status::passed;
  std::string detail;
};

struct PackFindings {
  ObjectiveResult result;
  std::int64_t owned_labels = 0;
  Cost predicted;

  std::vector<Check> checks;                    // of what stands by token
  FailedLogprobs failed_logprobs;               // of the first of these checks
  std::optional<GradientFindings> grad_logits;  // of the two that which the pack starts from
  std::optional<LinearFindings> grad_hidden;
  std::vector<Invariant> invariants;  // the same names in the same order for all packs and ranks

  std::int64_t input_bytes = 0;
  std::map<std::string, std::int64_t> output_bytes;  // of the harness, by phase
  std::vector<PhaseMemory> memory;                   // plan, forward, backward
  std::map<std::string, RankCounts> counts;          // by phase
  std::map<std::string, std::int64_t> time_ns;       // by phase
  std::map<std::string, DeviceWork> device_work;     // by phase
  std::map<std::string, PhaseMeasurement> measured;  // by phase, of plans that measure themselves

  std::uint64_t output_bits = 0;       // of everything by token that has a truth
  std::uint64_t own_logprob_bits = 0;  // of the own rows' log-probabilities; add up over CP
  std::map<std::string, std::uint64_t> gradient_bits;  // see RankTensors
  bool same_bits_again = false;

  // Kept for --out only; empty where they are not given.
  std::vector<double> logprobs;  // of the own rows, as the next
  std::vector<double> entropy;
  std::vector<double> row_gradient;  // [T_c, V_t] of logits, or [hidden_rows, H] of hidden states

  void add_invariant(const std::string& name, bool holds, const std::string& detail);
  void add_not_run(const std::string& name, const std::string& reason);
};

/// "3 elements, first: rank 0, sequence 1, token 2, vocab id 7"
std::string describe_misplaced(std::int64_t count, const ElementPlace& first);

/// Bits of loss and metrics, in the order of their names.
std::uint64_t fingerprint_result(const ObjectiveResult& result);

/// All buffers are on `device`, and gone at the end.
PackFindings run_pack(const TrialSetup& setup, const TrialPart& part,
                      const Denominators& denominators, const PackRank& rank, Device& device);

}  // namespace lossgrid
