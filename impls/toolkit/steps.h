// SPDX-License-Identifier: Apache-2.0
// Steps: the parts of the sharded strategies, each a plain function behind a pointer, so that a
// mutant is a strategy with exactly one step replaced and no copy of the rest. A step handles a
// whole array, so the cost of the pointer is negligible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/device/gemm.h"
#include "harness/loss/loss_implementation.h"
#include "impls/kernels/divergence_rows.h"
#include "impls/kernels/rows.h"
#include "impls/kernels/statistics_rows.h"
#include "impls/kernels/teacher_rows.h"

namespace lossgrid {

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// Size from which a gradient that is not in place is written past the caches, where it would only
/// evict other data.
inline constexpr std::int64_t kStreamBytes = std::int64_t{1} << 24;

struct Steps {
  // --- layout, while planning -------------------------------------------------------------------
  /// Returns the target of every row of the padded pack.
  ShiftedBatch (*shift)(const PackedBatch&) = shift_targets;
  /// Returns the padded position of each local row, [T_c].
  std::vector<std::int64_t> (*local_rows)(const PackedBatch&, int cp, int cp_rank);
  /// Returns the target of each local row: shift, then split.
  ShiftedBatch (*local_targets)(const PackedBatch&, const Steps&, int cp, int cp_rank);
  VocabShard (*shard_vocab)(std::int64_t vocab, int tp, int tp_rank) = vocab_shard;
  /// Cuts `rows` rows in chunks of `chunk`.
  std::vector<RowRange> (*chunks)(std::int64_t rows, std::int64_t chunk);

  // --- statistics of rows, merged over TP (shard_statistics.h) ----------------------------------
  std::int64_t (*statistics)(const LogitsRows&, const RowStatistics&) = rows_statistics;
  // Statistics of a student on the support of its teacher, and the sums of its divergence from the
  // teacher (teacher_statistics.h).
  void (*support_statistics)(const DistilledRows&, float* shift,
                             float* sum) = rows_support_statistics;
  void (*divergence)(const DistilledRows&, const RowSoftmax& p, const RowSoftmax& q,
                     const DivergenceSums&) = rows_divergence;
  void (*make_tail)(Device& device, std::int64_t rows, const MakeTail&);
  /// Sets source[k] to the gathered row of a teacher's hidden states that belongs to row k of the
  /// range.
  void (*teacher_source)(const LossProblem&, const RankContext&, const RowRange&,
                         std::span<std::int32_t> source);
  /// Makes the logits of a teacher (teacher_product.h).
  void (*teacher_product)(const LossProblem&, const RankContext&, const Gemm& product,
                          std::span<float> workspace);
  int serial_adds = kStatisticsSerialAdds;  // longest serial float32 add chain of `statistics`
  /// received := the statistics [columns, rows] of all ranks' shards, one rank after the other.
  void (*gather_statistics)(Communicator& tp, std::int64_t rows, std::span<const float> own,
                            std::span<float> received);
  // The alternative is three reductions: of shifts and negated minima,
  void (*reduce_max)(Communicator& tp, std::span<float>);
  // of sums and weighted sums,
  void (*reduce_sum)(Communicator& tp, std::span<float>);
  // and of the logits of targets.
  void (*reduce_target)(Communicator& tp, std::span<float>);
  /// Writes the outputs by token of `rows` rows.
  void (*write_outputs)(Device& device, std::int64_t rows, const WriteRow&);

  // --- from local rows to a pack, over CP -------------------------------------------------------
  /// Returns the padded position of every row, in the order of the ranks' rows, one rank after the
  /// other, [T_pad].
  std::vector<std::int64_t> (*gather_order)(const PackedBatch&, const Steps&, int cp);
  /// Returns the weight of a rank's replicated loss; it is needed because the adjoint of the gather
  /// adds over CP.
  float (*loss_share)(int cp);
  /// Adds the ranks' gradients of the gathered tensor in place: the adjoint of an all-gather.
  void (*add_gathered_gradients)(Communicator& cp, std::span<float>);

  // --- objective --------------------------------------------------------------------------------
  void (*token_terms)(const Objective&, const ObjectiveTokens&, const PackedBatch&, int cp,
                      SequenceTable<const double> coefficients, ObjectiveTotals<double>,
                      const TokenGradients& gradients);
  /// The following steps reduce sums of sequences [S, K], then totals, over CP ranks that each hold
  /// some rows.
  void (*reduce_sequence_sums)(Communicator& cp, SequenceTable<double>);
  void (*reduce_totals)(Communicator& cp, ObjectiveTotals<double>);
  /// Adds numbers by row of the padded pack in place; each number is 0 on all CP ranks but one.
  void (*reduce_selection)(Communicator& cp, std::span<double>);
  /// Returns loss and metrics from complete sums and totals.
  ObjectiveResult (*finish)(const Objective&, const PackedBatch&, int cp,
                            SequenceTable<const double> sums,
                            SequenceTable<const double> coefficients,
                            ObjectiveTotals<const double>);

  // --- gradient of local rows -------------------------------------------------------------------
  std::int64_t stream_bytes = kStreamBytes;
  void (*gradient)(const LogitsRows&, const RowSoftmax&, const RowGradients&,
                   void* out) = rows_gradient;

  /// Fused forward-backward of rows, if the shard is the whole vocabulary.
  std::int64_t (*forward_backward)(const LogitsRows&, const float* grad, std::span<float> scratch,
                                   const RowStatistics&, void* gradient) = rows_forward_backward;

  // --- from hidden states -----------------------------------------------------------------------
  /// Sets source[k] to the row, of the whole CP rank, from which row k of the chunk is read.
  void (*chunk_source)(const LossProblem&, const RowRange& chunk, int tp_rank,
                       std::span<std::int32_t> source);
  /// Without SP: sums `partial` [T_c, H] over TP in place. With SP: writes the sum for this rank's
  /// rows to `own` [T_c / tp, H].
  void (*reduce_grad_hidden)(Device& device, Communicator& tp, bool sp, std::span<float> partial,
                             std::span<float> own);
  /// The same step for a head that every TP rank has whole, where `partial` already is the sum.
  void (*share_grad_hidden)(Device& device, Communicator& tp, bool sp, std::span<float> partial,
                            std::span<float> own);
  /// Adds the product to the gradient of the weight.
  void (*add_grad_weight)(Device& device, const Gemm& product, std::span<float> workspace);
  /// Writes the bias to the logits of a chunk: the product of a column of ones and the bias.
  void (*write_bias)(const RankContext& context, const Gemm& product, std::span<float> workspace);
  /// Adds the sums of columns, the product of a row of ones and the gradient of logits, to the
  /// gradient of the bias.
  void (*add_grad_bias)(const RankContext& context, const Gemm& product,
                        std::span<float> workspace);

  Steps();
};

}  // namespace lossgrid
