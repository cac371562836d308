// SPDX-License-Identifier: Apache-2.0
// `SequenceParts`: the gradient of a weight as a sum over the sequences of the batch, each with a
// weight of its own. The true gradient counts each once; one that lost a microbatch, or counts it
// twice, is such a sum with other weights, which least squares find.
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
  std::vector<double> got;                 // [S] their inner products with the gradient
  double got_squared = 0;                  // of the gradient
  std::vector<std::int64_t> valid_tokens;  // [S]

  /// Adds the sums over another shard.
  void add(const SequenceParts& other);

  /// Returns the weights of the sequences with valid tokens, by sequence, NaN for others; nullopt
  /// if no such sum is the gradient.
  std::optional<std::vector<double>> weights() const;
};

/// Returns the sums over the ids of `shard`, of a gradient `got` [ids, H]. nullopt for batches with
/// more than 64 sequences or shards of more than 65536 elements: they would take too long.
std::optional<SequenceParts> sequence_parts(const Problem& problem, const Truth& truth,
                                            const VocabShard& shard, std::span<const double> got);

/// Returns "grad_weight counts sequences 0 and 3 4.000 times, ...: ..." if the weights differ, else
/// nullopt.
std::optional<std::string> sequence_sentence(const SequenceParts& parts);

/// One sequence of the batch, in the part that one call of a train step has of it.
struct SequenceLoss {
  int sequence = 0;   // of the batch
  int index = 0;      // in its part
  int part_size = 1;  // sequences of the part
  double loss = 0;    // its part of the loss
};

/// Returns the true parts of a loss that is a sum over tokens of a factor times the
/// log-probability; empty for another one.
std::vector<double> sequence_losses(const Problem& problem, const Truth& truth);

/// Returns "loss is that of sequences 0 and 2: of one microbatch?" if it is the sum over one of n
/// microbatches that sequences of every part are dealt to in turn, or are cut into, else nullopt.
std::optional<std::string> microbatch_sentence(const std::vector<SequenceLoss>& sequences,
                                               double loss);

}  // namespace lossgrid
