// SPDX-License-Identifier: Apache-2.0
// LinearPass: the common part of strategies that start from hidden states. It makes the logits of a
// chunk of rows, which exist only in its buffer, and the products of their gradient for hidden
// states and weight (NeMo-RL `ChunkedDistributedHiddenStatesToLogprobs`; float32 accumulation as in
// SkyRL and Megatron-LM #2739). Rows that take no part are never read: their hidden states count as
// zero.
//
//   forward   [SP: all-gather of hidden states over TP]   Z = X W^T / temperature, chunk by chunk
//   backward  dX = G W / temperature, all rows summed over TP once; dW += G^T X / temperature
//
// If every TP rank has the whole head, each rank makes all of dX, and nothing is summed.
//
// A bias b is one more column of W, multiplied separately: Z starts as 1 b^T / temperature, and db
// += G^T 1 / temperature.
#pragma once

#include <optional>

#include "impls/toolkit/linear_options.h"
#include "impls/toolkit/shard_statistics.h"
#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_product.h"

namespace lossgrid {

/// Base of strategies from hidden states, with the functions that follow from their options.
class LinearImplementation : public LossImplementation {
 public:
  LinearImplementation(const Steps& steps, LinearOptions options)
      : steps_(steps), options_(options) {}

  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    return options_.unsupported(problem);
  }
  DType grad_logits_dtype(const LossProblem& problem) const override {
    return options_.factor_dtype(problem);
  }
  std::map<std::string, std::string> details(const LossProblem& problem) const override {
    return options_.details(problem);
  }

 protected:
  const Steps steps_;
  const LinearOptions options_;
};

/// Gradients of the lm_head on this rank.
struct HeadGradients {
  float* weight = nullptr;
  float* bias = nullptr;  // with LmHead::has_bias
};

class LinearPass {
 public:
  /// With `keeps_partial`, d hidden is computed before its output buffer is known.
  LinearPass(const LossProblem& problem, RankContext context, const Steps& steps,
             const RowTable& rows, const LinearOptions& options, bool keeps_partial);
  static std::int64_t bytes(const LossProblem& problem, const LinearOptions& options,
                            bool keeps_partial);
  /// The following functions return the FLOPs of one product over all rows: of a product that
  /// includes the bias, and of d hidden, which does not.
  static std::int64_t product_flops(const LossProblem& problem);
  /// Adds the FLOPs of making all logits, including a teacher's, `times` times.
  static void add_products(const LossProblem& problem, std::int64_t times, PhaseCost& phase);
  static std::int64_t grad_hidden_flops(const LossProblem& problem);
  /// The following functions add the collectives over TP of gather() and of write_hidden().
  static void add_gather(const LossProblem& problem, CollectiveCounts& tp);
  static void add_reduction(const LossProblem& problem, CollectiveCounts& tp);

  const std::vector<RowRange>& chunks() const { return chunks_; }

  /// Gathers the hidden states of all rows of the CP rank, which with SP are on its TP ranks.
  /// Collective.
  void gather(const LossInputs& inputs);

  enum class Read { predicting, valid };
  /// Computes logits of the chunk, float32 [count, LogitsRows::shard.width], valid until the next
  /// call: for rows that predict a token, or only for rows with a trained token. The hidden states
  /// of other rows count as 0.
  LogitsRows logits(const RowRange& chunk, Read read);

  /// Overwrites logits() of a chunk with their gradient, in the dtype of the products' factors.
  void write_gradient(const LogitsRows& made, const RowSoftmax& softmax,
                      const RowGradients& gradients);
  float* logits_data() { return logits_.data(); }

  /// Computes the statistics of all rows, chunk by chunk, and writes the outputs by token. Returns
  /// the number of valid targets that the shard owns. Collective.
  std::int64_t run_statistics(ShardStatistics& statistics, const TokenOutputs& out);

  /// Returns the statistics of a chunk after run_statistics(), for its gradient.
  RowSoftmax chunk_softmax(const RowRange& chunk, ShardStatistics& statistics) const;
  /// Returns the number of merges of run_statistics(): one, or with a teacher one per chunk.
  static std::int64_t merges(const LossProblem& problem, const LinearOptions& options);

  /// Adds to the gradients of weight and bias, or writes them if `accumulate` is false, and writes
  /// the gradient of the hidden states to `grad_hidden` (null with keeps_partial). Requires
  /// logits() of the same chunk, overwritten by their gradient: by write_gradient(), or in float32
  /// at logits_data().
  void add_gradients(const RowRange& chunk, const HeadGradients& head, bool accumulate,
                     void* grad_hidden);

  /// Adds `kept`, gradients of weight and bias of the ids that the shard has, to `head`.
  void add_kept(const HeadGradients& kept, const HeadGradients& head) const;

  /// Sums d hidden over TP into the output. Collective.
  void write_hidden(void* grad_hidden);

 private:
  static bool has_partial(const LossProblem& problem, bool keeps_partial);
  Gemm product(std::int64_t m, std::int64_t n, std::int64_t k) const;
  std::span<float> partial(void* grad_hidden);
  void copy_rows(const RowRange& chunk, Read read);
  std::int64_t add_tiles(const RowRange& chunk, ShardStatistics& statistics);
  Matrix hidden_factor(bool transposed) const;
  Matrix gradient_factor(bool transposed);
  void write_bias(const RowRange& chunk);
  void add_grad_bias(const RowRange& chunk, float* grad_bias, bool accumulate);

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  const RowTable& rows_;
  const std::int64_t size_;  // H
  const DType factor_;
  VocabShard shard_;
  VocabShard logits_shard_;  // the same ids, in rows of the width of logits_
  std::vector<RowRange> chunks_;
  Buffer gathered_;  // [T_c, H], with SP
  Buffer hidden_;    // [chunk, H] in the factors' dtype
  FloatArray logits_;
  bool is_rounded_ = false;                // logits_ holds the gradient in bf16
  Buffer ones_;                            // [chunk] in the factors' dtype, with a bias
  std::optional<TeacherProduct> teacher_;  // for strategies with chunks
  DeviceArray<std::int32_t> source_;
  FloatArray workspace_;
  FloatArray tiles_;    // sums of a chunk, with LinearOptions::tiles
  FloatArray partial_;  // [T_c, H], if the output cannot hold it
  FloatArray own_;      // [T_c / tp, H], with SP in bf16
  const void* all_hidden_ = nullptr;
  const void* weight_ = nullptr;
  LossInputs inputs_;
};

}  // namespace lossgrid
