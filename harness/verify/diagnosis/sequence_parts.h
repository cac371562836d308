// SPDX-License-Identifier: Apache-2.0
// `SequenceParts`: the gradient of a weight as a weighted sum over the sequences of the batch. The
// true gradient counts each sequence once. A gradient that lost a microbatch or counts it twice is
// such a sum with other weights, which least squares find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

struct SequenceParts {
  std::vector<double> products;            // [S, S] inner products of the sequences' true parts
  std::vector<double> got;                 // [S] inner products of the true parts with the gradient
  double got_squared = 0;                  // squared norm of the gradient
  std::vector<std::int64_t> valid_tokens;  // [S]

  /// Adds the sums over another shard.
  void add(const SequenceParts& other);

  /// Returns the weight of each sequence, NaN for sequences without valid tokens; nullopt if the
  /// gradient is no such sum.
  std::optional<std::vector<double>> weights() const;
};

/// Returns the sums for a gradient `got` [ids, H] of the ids of `shard`; nullopt for batches with
/// more than 64 sequences or shards of more than 65536 elements, which would take too long.
std::optional<SequenceParts> sequence_parts(const Problem& problem, const Truth& truth,
                                            const VocabShard& shard, std::span<const double> got);

/// Returns "grad_weight counts sequences 0 and 3 4.000 times, ...: ..." if the weights differ, else
/// nullopt.
std::optional<std::string> sequence_sentence(const SequenceParts& parts);

/// A sequence of the batch, in the part of the batch that one call of a train step has.
struct SequenceLoss {
  int sequence = 0;   // of the batch
  int index = 0;      // number of the sequence in its part
  int part_size = 1;  // number of sequences in the part
  double loss = 0;    // part of the loss from this sequence
};

/// Returns the true part of each sequence in a loss that is a sum over tokens of a factor times the
/// log-probability; empty for other losses.
std::vector<double> sequence_losses(const Problem& problem, const Truth& truth);

/// Returns "loss is that of sequences 0 and 2: of one microbatch?" if the loss is the sum over one
/// of n microbatches, else nullopt. The sequences of every part are dealt to the microbatches in
/// turn, or cut into n consecutive groups.
std::optional<std::string> microbatch_sentence(const std::vector<SequenceLoss>& sequences,
                                               double loss);

}  // namespace lossgrid
