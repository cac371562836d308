// SPDX-License-Identifier: Apache-2.0
// per_sequence: the baseline, a loop over the sequences of the pack. For each sequence: slice,
// three TP all-reduces, a CP gather of the outputs of the sequence's tokens, the objective. Every
// CP rank computes the whole loss and weights it by 1 / cp, so that the adjoint of the gather is an
// all-reduce of the sequence's gradient. (NeMo-RL `SequencePackingLossWrapper`,
// `AllGatherCPTensor`.)
#include <algorithm>

#include "harness/device/kernel/items.h"
#include "impls/kernels/row_positions.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"
#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_product.h"

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
        local_(context.device, steps.local_targets(problem.batch, steps, cp_, context.cp.rank()),
               problem),
        pack_(context.device, steps.shift(problem.batch), problem),
        order_(copy_positions(context.device, steps.gather_order(problem.batch, steps, cp_))),
        teacher_(problem, context, steps, local_, longest(problem.batch) / cp_),
        statistics_(context.device, problem, steps, problem.local_rows(), Exchange::three),
        local_outputs_(context.device, problem.token_columns() * (longest(problem.batch) / cp_),
                       "outputs_local"),
        received_(context.device, problem.token_columns() * longest(problem.batch),
                  "outputs_received"),
        sequence_grad_(context.device, problem.gradient_columns() * longest(problem.batch),
                       "grad_logprobs"),
        pack_grad_(context.device, problem, problem.rows()),
        local_grad_(context.device, problem, problem.local_rows()),
        objective_(context.device, problem, steps) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    outputs.owned_labels = 0;
    objective_.begin();
    teacher_.gather(inputs);
    for (std::int64_t i = 0; i < problem_.batch.sequences(); ++i) {
      const RowRange own = local_range(i);
      const std::int64_t block = problem_.token_columns() * own.count;
      outputs.owned_labels +=
          statistics_.run(steps_, context_.tp, view(inputs, own),
                          columns_in(local_outputs_.span(0, block), problem_, own.count));
      gather_sequence(own, outputs.tokens);
      objective_.add_sequences(sequence_tokens(i, outputs.tokens));
    }
    objective_.make_coefficients();
    for (std::int64_t i = 0; i < problem_.batch.sequences(); ++i) {
      objective_.add_tokens(
          sequence_tokens(i, outputs.tokens),
          pack_grad_.part(problem_.batch.cu_seqlens_padded[i], problem_.batch.padded_length(i)));
    }
    outputs.result = objective_.result();
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const std::int64_t row_bytes =
        shard_.width * static_cast<std::int64_t>(size_of(problem_.dtype));
    const float share = cp_ > 1 ? steps_.loss_share(cp_) : 1.0f;
    for (std::int64_t i = 0; i < problem_.batch.sequences(); ++i) {
      const std::int64_t begin = problem_.batch.cu_seqlens_padded[i];
      const std::int64_t count = problem_.batch.padded_length(i);
      const std::span<float> block = sequence_grad_.span(0, problem_.gradient_columns() * count);
      const TokenGradients grad = gradients_in(block, problem_, count);
      scale(share, pack_grad_.part(begin, count), grad);
      if (cp_ > 1) steps_.add_gathered_gradients(context_.cp, block);

      const RowRange own = local_range(i);
      const std::int64_t first = context_.cp.rank() * problem_.local_rows() + own.begin;
      gather_gradients(context_.device, own.count, grad, order_.data() + first, begin,
                       local_grad_.part(own.begin, own.count));
      const LogitsRows rows = view(inputs, own);
      steps_.gradient(rows, statistics_.softmax(), local_grad_.from(own.begin),
                      static_cast<std::byte*>(gradients.logits) + own.begin * row_bytes);
    }
  }

 private:
  /// Returns own rows with their teacher, and selects their statistics.
  LogitsRows view(const LossInputs& inputs, const RowRange& own) {
    LogitsRows rows = logits_rows(problem_, shard_, inputs, local_).slice(own.begin, own.count);
    teacher_.make(own.begin, rows);
    statistics_.select(own.begin, own.count);
    return rows;
  }

  void scale(float share, const TokenGradients& from, const TokenGradients& to) const {
    const auto sources = from.columns();
    const auto targets = to.columns();
    for (std::size_t c = 0; c < sources.size(); ++c) {
      for_each_item(context_.device, static_cast<std::int64_t>(targets[c].size()),
                    ScaleRow{share, sources[c].data(), targets[c].data()});
    }
  }

  /// Returns the range of sequence `i` in this rank's rows.
  RowRange local_range(std::int64_t i) const {
    return {problem_.batch.cu_seqlens_padded[i] / cp_, problem_.batch.padded_length(i) / cp_};
  }

  ObjectiveTokens sequence_tokens(std::int64_t i, const TokenOutputs& outputs) const {
    return pack_.tokens(outputs, problem_.batch.cu_seqlens_padded[i],
                        problem_.batch.padded_length(i));
  }

  void gather_sequence(const RowRange& own, const TokenOutputs& pack) {
    const std::int64_t block = problem_.token_columns() * own.count;
    std::span<float> blocks = local_outputs_.span(0, block);
    if (cp_ > 1) {
      const std::span<float> received = received_.span(0, block * cp_);
      context_.cp.all_gather(std::span<const float>(blocks), received);
      blocks = received;
    }
    scatter_columns(context_.device, blocks, own.count, cp_, order_.data() + own.begin,
                    problem_.local_rows(), pack);
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  int cp_;
  VocabShard shard_;
  RowTable local_;
  RowTable pack_;
  DeviceArray<std::int32_t> order_;
  TeacherProduct teacher_;  // of the rows of a sequence
  ShardStatistics statistics_;
  FloatArray local_outputs_;
  FloatArray received_;
  FloatArray sequence_grad_;
  GradientTable pack_grad_;
  GradientTable local_grad_;
  ObjectivePass objective_;
};

class PerSequence final : public LossImplementation {
 public:
  PerSequence(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {}, "per_sequence");
  }

  ImplementationTraits describe() const override {
    ImplementationTraits traits{"per_sequence",
                                "a loop over sequences, one gather over CP for each",
                                LogprobScope::pack, steps_.serial_adds};
    // From cp = 8 on, the float32 sum of cp times g / cp is not bitwise equal to g.
    traits.claims_packing = false;
    return traits;
  }

  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    if (problem.grid.cp == 1 || rules_of(problem.grid.cp_layout).cuts_sequences)
      return std::nullopt;
    return SkipReason{"gathers equal parts of a sequence from every CP rank"};
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t rows = problem.rows();
    const std::int64_t local = problem.local_rows();
    const std::int64_t sequences = problem.batch.sequences();
    const std::int64_t longest_rows = longest(problem.batch);
    Cost cost;
    const std::int64_t columns = problem.token_columns();
    const std::int64_t longest_local = longest_rows / problem.grid.cp;
    cost.plan.workspace_bytes =
        RowTable::bytes(problem, local) + RowTable::bytes(problem, rows) + kPositionBytes * rows +
        ShardStatistics::bytes(problem, local, Exchange::three) +
        TeacherProduct::bytes(problem, longest_local) +
        kFloatBytes * columns * (longest_rows + longest_local) +
        GradientTable::bytes(problem, longest_rows + rows + local) + ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    ShardStatistics::add_merges(problem, local, sequences, Exchange::three, cost.forward.tp);
    add_logits_traffic(problem, cost);
    TeacherProduct::add_gather(problem, cost.forward);
    for (PhaseCost* phase : {&cost.forward, &cost.backward}) {
      TeacherProduct::add_flops(problem, local, *phase);
    }
    if (problem.grid.cp > 1) {
      cost.forward.cp.add(Collective::all_gather, sequences, kFloatBytes * columns * local);
      cost.backward.cp.add(Collective::all_reduce, sequences, GradientTable::bytes(problem, rows));
    }
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<PerSequencePlan>(problem, context, steps_);
  }

 private:
  Steps steps_;
};

const RegisteredStrategy registered_per_sequence{
    "per_sequence", [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<PerSequence>(steps, options);
    }};

}  // namespace
}  // namespace lossgrid
