// SPDX-License-Identifier: Apache-2.0
// An implementation: a strategy for getting log-probabilities from sharded logits and taking the
// gradient back. It never knows which objective it serves. The harness asks whether it can take a
// problem, what that will cost, and for a plan; a plan belongs to one rank and its thread.
//
// Conventions that hold for all: the sum over CP ranks of the ranks' gradients, placed in the
// unsharded layout, is the gradient, with no other factor; every rank returns the same loss and the
// same metrics; every rank enters every collective, also with nothing valid to contribute.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/comm/counting_communicator.h"
#include "harness/comm/process_grid.h"
#include "harness/device/device.h"
#include "harness/loss/objective.h"
#include "harness/problem/sharding.h"

namespace lossgrid {

/// What an implementation is asked to do; the referenced objects outlive it.
struct LossProblem {
  const PackedBatch& batch;
  std::int64_t vocab;
  DType dtype;  // of logits and of their gradient
  Grid grid;    // strategies see one dp rank of it
  const Objective& objective;
  const ObjectiveSpec& objective_spec;  // what `objective` was made of

  bool row_statistics() const { return objective.needs().row_statistics; }
  /// Arrays by token that a plan returns: log-probabilities, and with row statistics entropy,
  /// vocab_min and vocab_max.
  std::int64_t token_columns() const { return row_statistics() ? 4 : 1; }
  std::int64_t rows() const { return batch.padded_tokens(); }             // T_pad
  std::int64_t local_rows() const { return rows() / grid.cp; }            // T_c
  std::int64_t width() const { return (vocab + grid.tp - 1) / grid.tp; }  // V_t
  std::int64_t shard_bytes() const {
    return local_rows() * width() * static_cast<std::int64_t>(size_of(dtype));
  }
};

struct RankContext {
  Device& device;
  Communicator& tp;
  Communicator& cp;
};

/// Where a plan's outputs by token stand: its own rows [T_c], or the whole padded pack [T_pad].
enum class LogprobScope { shard, pack };

struct Description {
  std::string name;
  std::string summary;
  LogprobScope logprobs = LogprobScope::shard;
  // Longest serial float32 add chain over the vocabulary of one row, without the TP reduction.
  int serial_adds = 0;
  // Bits that it promises: the same on every run; the same per token for every packing and CP size.
  bool claims_run_to_run = true;
  bool claims_packing = true;
  // The same with an objective that adds up over sequences before its gradient is known: sums of
  // ranks may round differently from sums over the whole pack.
  bool claims_packing_of_sequence_sums = true;
};

/// What one phase needs beside its inputs and outputs, per rank.
struct PhaseCost {
  std::int64_t workspace_bytes = 0;  // peak of the plan's own buffers during the phase
  CollectiveCounts tp;
  CollectiveCounts cp;
};

struct Cost {
  PhaseCost plan;
  PhaseCost forward;
  PhaseCost backward;
};

struct LossInputs {
  const void* logits;  // [T_c, V_t] row-major, LossProblem::dtype
};

/// By token, [T_c] or [T_pad] by Description::logprobs; 0 where nothing is predicted. All but
/// logprobs are empty unless the problem asks for row statistics.
struct TokenOutputs {
  std::span<float> logprobs;
  std::span<float> entropy;    // of the policy, in nats
  std::span<float> vocab_min;  // smallest logit that is not -inf
  std::span<float> vocab_max;

  /// All columns that are asked for, in this order.
  std::array<std::span<float>, 4> columns() const {
    return {logprobs, entropy, vocab_min, vocab_max};
  }
  TokenOutputs part(std::int64_t begin, std::int64_t count) const;
};

struct LossOutputs {
  TokenOutputs tokens;
  ObjectiveResult result;  // of this pack; metrics of several packs join (metric.h)
  // Valid targets that this rank accounts for; over all ranks they add up to the valid targets.
  std::int64_t owned_labels = 0;
};

struct LossGradients {
  void* logits;  // [T_c, V_t] d loss / d logits of this rank's shard; every element is written
};

class LossPlan {
 public:
  virtual ~LossPlan() = default;
  virtual void forward(const LossInputs& inputs, LossOutputs& outputs) = 0;
  /// After forward, on the same inputs.
  virtual void backward(const LossInputs& inputs, LossGradients& gradients) = 0;
};

class LossImplementation {
 public:
  virtual ~LossImplementation() = default;
  virtual Description describe() const = 0;
  /// Empty when it can take the problem (so it is unless overridden), else the reason.
  virtual std::string why_unsupported(const LossProblem& problem) const;
  virtual Cost cost(const LossProblem& problem) const = 0;
  /// Allocates all workspaces. The problem outlives the plan.
  virtual std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const = 0;
};

}  // namespace lossgrid
