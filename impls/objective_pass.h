// SPDX-License-Identifier: Apache-2.0
// The three steps of an objective over the rows of one pack, with the buffers that they add up in.
// A rank with whole sequences calls begin, add_sequences, add_tokens, result; a rank with some rows
// of them also reduces over CP after each of the first two. Every rank takes the same branches.
#pragma once

#include "harness/loss/loss_implementation.h"
#include "impls/steps.h"

namespace lossgrid {

class ObjectivePass {
 public:
  ObjectivePass(Device& device, const LossProblem& problem, const Steps& steps);
  static std::int64_t bytes(const LossProblem& problem);

  /// All steps on a rank that holds the whole pack.
  ObjectiveResult run(const ObjectiveTokens& tokens, std::span<float> grad_logprobs);

  /// Everything at its start again.
  void begin();
  /// Step 1 over some rows; nothing for an objective without sums of sequences.
  void add_sequences(const ObjectiveTokens& tokens);
  void reduce_sequences(Communicator& cp);
  /// Step 2; the sums are whole.
  void make_coefficients();
  /// Step 3 over some rows: writes their d loss / d logprob.
  void add_tokens(const ObjectiveTokens& tokens, std::span<float> grad_logprobs);
  void reduce_totals(Communicator& cp);
  ObjectiveResult result() const;

  /// What reduce_sequences and reduce_totals cost.
  static void add_reductions(const LossProblem& problem, CollectiveCounts& cp);

 private:
  const LossProblem& problem_;
  const Steps steps_;
  DeviceArray<double> numbers_;  // what the views below look at, in their order
  SequenceTable<double> sums_;
  SequenceTable<double> coefficients_;
  ObjectiveTotals<double> totals_;
};

}  // namespace lossgrid
