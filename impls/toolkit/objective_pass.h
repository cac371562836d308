// SPDX-License-Identifier: Apache-2.0
// ObjectivePass: the three steps of an objective over the rows of one pack, with their
// accumulators. They run all together on a rank with the whole pack (run) or with some of its rows
// (run_local), or one by one. Every rank takes the same branches. On a device for which the
// objective has kernels, the steps by token are launched, and the host waits when it needs their
// sums.
#pragma once

#include "harness/loss/loss_implementation.h"
#include "impls/toolkit/steps.h"

namespace lossgrid {

class ObjectivePass {
 public:
  ObjectivePass(Device& device, const LossProblem& problem, const Steps& steps);
  static std::int64_t bytes(const LossProblem& problem);

  /// Runs all steps on a rank that holds the whole pack.
  ObjectiveResult run(const ObjectiveTokens& tokens, const TokenGradients& gradients);

  /// Runs all steps on a rank that holds only its own rows; sums cross CP. Collective.
  ObjectiveResult run_local(Communicator& cp, const ObjectiveTokens& tokens,
                            const TokenGradients& gradients);
  /// Computes only the gradients, in the same way. Collective if the objective has sums of
  /// sequences, or selects tokens.
  void gradient_alone(Communicator& cp, const ObjectiveTokens& tokens,
                      const TokenGradients& gradients);

  /// Resets all accumulators.
  void begin();
  /// Runs step 1 over some rows. Does nothing for an objective without sums of sequences and
  /// without selection.
  void add_sequences(const ObjectiveTokens& tokens);
  void reduce_sequences(Communicator& cp);
  /// Runs step 2. Requires complete sums, and the numbers of all tokens.
  void make_coefficients();
  /// Runs step 3 over some rows: writes their d loss / d numbers.
  void add_tokens(const ObjectiveTokens& tokens, const TokenGradients& gradients);
  void reduce_totals(Communicator& cp);
  ObjectiveResult result();

  /// Adds the cost of reduce_sequences and reduce_totals.
  static void add_reductions(const LossProblem& problem, CollectiveCounts& cp);
  /// Adds the cost of reduce_sequences.
  static void add_sequence_reduction(const LossProblem& problem, CollectiveCounts& cp);

 private:
  /// Waits for launched kernels. Must precede the host's reads and writes of their tables.
  void wait();

  Device& device_;
  const LossProblem& problem_;
  const Steps steps_;
  const std::unique_ptr<ObjectiveKernels> kernels_;  // null: loops of the host
  const bool launches_token_terms_;                  // true with the right step
  bool launched_ = false;                            // kernels were launched since the last wait
  DeviceArray<double> partial_totals_;
  DeviceArray<double> numbers_;            // memory of the following views, in order
  DeviceArray<double> selection_numbers_;  // by row of the pack
  DeviceArray<std::uint8_t> selected_;
  SequenceTable<double> sums_;
  SequenceTable<double> coefficients_;
  ObjectiveTotals<double> totals_;
};

}  // namespace lossgrid
