// SPDX-License-Identifier: Apache-2.0
// per_sequence: the baseline. A loop over the sequences of the pack: slice, three TP all-reduces, a
// CP gather of the sequence's log-probabilities, the objective, accumulate. Every CP rank computes
// the whole loss and counts it for 1 / cp, so that the adjoint of the gather is an all-reduce of
// the sequence's gradient. (NeMo-RL `SequencePackingLossWrapper`, `AllGatherCPTensor`.)
#include <algorithm>

#include "impls/strategy.h"

namespace lossgrid {
namespace {

std::int64_t longest(const PackedBatch& batch) {
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < batch.sequences(); ++i)
    rows = std::max(rows, batch.padded_length(i));
  return rows;
}

class PerSequencePlan final : public LossPlan {
 public:
  PerSequencePlan(const LossProblem& problem, RankContext context, const Steps& steps)
      : problem_(problem),
        context_(context),
        steps_(steps),
        cp_(problem.grid.cp),
        shard_(steps.shard_vocab(problem.vocab, problem.grid.tp, context.tp.rank())),
        local_(context.device, steps.local_targets(problem.batch, steps, cp_, context.cp.rank())),
        pack_(context.device, steps.shift(problem.batch)),
        order_(copy_positions(context.device, steps.gather_order(problem.batch, steps, cp_))),
        max_(context.device, problem.local_rows(), "statistics"),
        sum_(context.device, problem.local_rows(), "statistics"),
        local_logprobs_(context.device, longest(problem.batch) / cp_, "logprobs_local"),
        sequence_rows_(context.device, longest(problem.batch), "sequence_rows"),
        pack_grad_(context.device, problem.rows(), "grad_logprobs"),
        local_grad_(context.device, longest(problem.batch) / cp_, "grad_logprobs"),
        partials_(static_cast<std::size_t>(problem.objective.partial_sums())) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    std::fill(partials_.begin(), partials_.end(), 0.0);
    outputs.owned_labels = 0;
    const LogitsRows rows = view(inputs);
    for (std::int64_t i = 0; i < problem_.batch.sequences(); ++i) {
      const RowRange own = local_range(i);
      const std::span<float> logprobs = local_logprobs_.span(0, own.count);
      outputs.owned_labels +=
          row_logprobs(steps_, context_.tp, rows.slice(own.begin, own.count),
                       max_.span(own.begin, own.count), sum_.span(own.begin, own.count), logprobs);
      gather_sequence(own, logprobs, outputs.logprobs);

      const std::int64_t begin = problem_.batch.cu_seqlens_padded[i];
      const std::int64_t count = problem_.batch.padded_length(i);
      steps_.token_terms(problem_.objective, pack_.tokens(outputs.logprobs, begin, count),
                         problem_.batch, cp_, partials_, pack_grad_.span(begin, count));
    }
    outputs.result = problem_.objective.finish(problem_.batch, partials_);
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const LogitsRows rows = view(inputs);
    const std::int64_t row_bytes =
        shard_.width * static_cast<std::int64_t>(size_of(problem_.dtype));
    const float share = cp_ > 1 ? steps_.loss_share(cp_) : 1.0f;
    for (std::int64_t i = 0; i < problem_.batch.sequences(); ++i) {
      const std::int64_t begin = problem_.batch.cu_seqlens_padded[i];
      const std::int64_t count = problem_.batch.padded_length(i);
      const std::span<float> grad = sequence_rows_.span(0, count);
      for (std::int64_t t = 0; t < count; ++t) grad[t] = share * pack_grad_[begin + t];
      if (cp_ > 1) steps_.add_gathered_gradients(context_.cp, grad);

      const RowRange own = local_range(i);
      const std::int64_t first = context_.cp.rank() * problem_.local_rows() + own.begin;
      for (std::int64_t k = 0; k < own.count; ++k) {
        local_grad_[k] = grad[order_[first + k] - begin];
      }
      steps_.gradient(rows.slice(own.begin, own.count), max_.data() + own.begin,
                      sum_.data() + own.begin, local_grad_.data(),
                      static_cast<std::byte*>(gradients.logits) + own.begin * row_bytes);
    }
  }

 private:
  LogitsRows view(const LossInputs& inputs) const {
    return logits_rows(problem_, shard_, inputs, local_);
  }

  /// The rows of sequence `i` among this rank's.
  RowRange local_range(std::int64_t i) const {
    return {problem_.batch.cu_seqlens_padded[i] / cp_, problem_.batch.padded_length(i) / cp_};
  }

  void gather_sequence(const RowRange& own, std::span<const float> logprobs,
                       std::span<float> pack) {
    std::span<const float> ranks_rows = logprobs;
    if (cp_ > 1) {
      const std::span<float> received = sequence_rows_.span(0, own.count * cp_);
      context_.cp.all_gather(logprobs, received);
      ranks_rows = received;
    }
    for (int rank = 0; rank < cp_; ++rank) {
      for (std::int64_t k = 0; k < own.count; ++k) {
        pack[order_[rank * problem_.local_rows() + own.begin + k]] =
            ranks_rows[rank * own.count + k];
      }
    }
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  int cp_;
  VocabShard shard_;
  RowTable local_;
  RowTable pack_;
  DeviceArray<std::int32_t> order_;
  FloatArray max_;
  FloatArray sum_;
  FloatArray local_logprobs_;
  FloatArray sequence_rows_;
  FloatArray pack_grad_;
  FloatArray local_grad_;
  std::vector<double> partials_;
};

class PerSequence final : public LossImplementation {
 public:
  PerSequence(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {}, "per_sequence");
  }

  Description describe() const override {
    Description description{"per_sequence", "a loop over sequences, one gather over CP for each",
                            LogprobScope::pack, steps_.serial_adds};
    // cp times g / cp, added up in float32, is not g to the last bit from cp = 8 on.
    description.claims_packing = false;
    return description;
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t rows = problem.rows();
    const std::int64_t local = problem.local_rows();
    const std::int64_t sequences = problem.batch.sequences();
    const std::int64_t longest_rows = longest(problem.batch);
    Cost cost;
    cost.plan.workspace_bytes =
        RowTable::bytes(local) + RowTable::bytes(rows) + kPositionBytes * rows +
        2 * kFloatBytes * local +
        kFloatBytes * (longest_rows + 2 * (longest_rows / problem.grid.cp)) + kFloatBytes * rows;
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    cost.forward.tp.add(Collective::all_reduce, 3 * sequences, 3 * kFloatBytes * local);
    if (problem.grid.cp > 1) {
      cost.forward.cp.add(Collective::all_gather, sequences, kFloatBytes * local);
      cost.backward.cp.add(Collective::all_reduce, sequences, kFloatBytes * rows);
    }
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<PerSequencePlan>(problem, context, steps_);
  }

 private:
  Steps steps_;
};

const RegisteredStrategy registered{"per_sequence",
                                    [](const Steps& steps, const ImplementationOptions& options) {
                                      return std::make_unique<PerSequence>(steps, options);
                                    }};

}  // namespace
}  // namespace lossgrid
