// SPDX-License-Identifier: Apache-2.0
// fused: one pass over the whole pack. One gather over TP of the statistics of all rows, one gather
// over CP of the outputs by token for the whole pack, the objective on full sequences on every CP
// rank, and the gradient of the rank's own rows only (the loss is replicated, so the adjoint of the
// gather is a selection). After NeMo-RL `SequencePackingFusionLossWrapper` and SkyRL's packed
// gather.
//
// Options: chunk_tokens=c: statistics chunk by chunk of c rows, recomputed in the backward pass;
// stream_bytes=n: a gradient of n bytes or more is written past the caches (16 MiB).
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "impls/kernels/row_positions.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"
#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_product.h"

namespace lossgrid {
namespace {

class FusedPlan final : public LossPlan {
 public:
  FusedPlan(const LossProblem& problem, RankContext context, const Steps& steps, std::int64_t chunk)
      : problem_(problem),
        context_(context),
        steps_(steps),
        chunked_(chunk > 0),
        shard_(steps.shard_vocab(problem.vocab, problem.grid.tp, context.tp.rank())),
        chunks_(steps.chunks(problem.local_rows(),
                             std::max<std::int64_t>(1, rows_at_a_time(problem, chunk)))),
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank()),
               problem),
        pack_(context.device, steps.shift(problem.batch), problem),
        order_(copy_positions(context.device,
                              steps.gather_order(problem.batch, steps, problem.grid.cp))),
        teacher_(problem, context, steps, local_, rows_at_a_time(problem, chunk)),
        statistics_(context.device, problem, steps, statistics_rows(problem, chunk)),
        local_outputs_(context.device, problem.token_columns() * problem.local_rows(),
                       "outputs_local"),
        received_(context.device,
                  problem.grid.cp > 1 ? problem.token_columns() * problem.rows() : 0,
                  "outputs_received"),
        pack_grad_(context.device, problem, problem.rows()),
        local_grad_(context.device, problem, problem.local_rows()),
        objective_(context.device, problem, steps) {}

  static std::int64_t rows_at_a_time(const LossProblem& problem, std::int64_t chunk) {
    return chunk > 0 ? std::min(chunk, problem.local_rows()) : TeacherProduct::chunk_rows(problem);
  }

  static std::int64_t statistics_rows(const LossProblem& problem, std::int64_t chunk) {
    return chunk > 0 ? std::min(chunk, problem.local_rows()) : problem.local_rows();
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    const std::int64_t count = problem_.local_rows();
    const TokenOutputs local = columns_in(local_outputs_.span(), problem_, count);
    outputs.owned_labels = 0;
    teacher_.gather(inputs);
    for (const RowRange& chunk : chunks_) {
      const LogitsRows rows = view(inputs, chunk);
      outputs.owned_labels +=
          statistics_.run(steps_, context_.tp, rows, local.part(chunk.begin, chunk.count));
    }
    gather(outputs.tokens);

    outputs.result =
        objective_.run(pack_.tokens(outputs.tokens, 0, problem_.rows()), pack_grad_.all());
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const std::int64_t row_bytes =
        shard_.width * static_cast<std::int64_t>(size_of(problem_.dtype));
    const std::int64_t count = problem_.local_rows();
    const std::int32_t* own = order_.data() + context_.cp.rank() * count;
    gather_gradients(context_.device, count, pack_grad_.all(), own, 0, local_grad_.all());
    for (const RowRange& range : chunks_) {
      const LogitsRows chunk = view(inputs, range);
      if (chunked_) statistics_.make(steps_, context_.tp, chunk);
      steps_.gradient(chunk, statistics_.softmax(), local_grad_.from(range.begin),
                      static_cast<std::byte*>(gradients.logits) + range.begin * row_bytes);
    }
  }

 private:
  /// Returns the rows of a chunk with their teacher, and selects their statistics.
  LogitsRows view(const LossInputs& inputs, const RowRange& chunk) {
    LogitsRows rows = logits_rows(problem_, shard_, inputs, local_, steps_.stream_bytes)
                          .slice(chunk.begin, chunk.count);
    teacher_.make(chunk.begin, rows);
    statistics_.select(chunked_ ? 0 : chunk.begin, chunk.count);
    return rows;
  }

  /// Gathers the outputs of all CP ranks' rows into `pack`, in the order of the pack.
  void gather(const TokenOutputs& pack) {
    std::span<float> blocks = local_outputs_.span();
    if (problem_.grid.cp > 1) {
      context_.cp.all_gather(std::span<const float>(blocks), received_.span());
      blocks = received_.span();
    }
    const std::int64_t local = problem_.local_rows();
    scatter_columns(context_.device, blocks, local, problem_.grid.cp, order_.data(), local, pack);
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  bool chunked_;
  VocabShard shard_;
  std::vector<RowRange> chunks_;
  RowTable local_;
  RowTable pack_;
  DeviceArray<std::int32_t> order_;  // places of the CP ranks' rows in the pack
  TeacherProduct teacher_;
  ShardStatistics statistics_;
  FloatArray local_outputs_;
  FloatArray received_;
  GradientTable pack_grad_;
  GradientTable local_grad_;
  ObjectivePass objective_;
};

class Fused final : public LossImplementation {
 public:
  Fused(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {"chunk_tokens", "stream_bytes"}, "fused");
    steps_.stream_bytes = read_stream_bytes(options, "fused");
    const auto chunk = options.find("chunk_tokens");
    if (chunk != options.end()) {
      chunk_ = parse_integer(chunk->second, "fused: chunk_tokens", 1, std::int64_t{1} << 31);
    }
  }

  ImplementationTraits describe() const override {
    return {"fused", "one pass over the pack, one gather of log-probabilities over CP",
            LogprobScope::pack, steps_.serial_adds};
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t rows = problem.rows();
    const std::int64_t local = problem.local_rows();
    const bool gathers = problem.grid.cp > 1;
    const std::int64_t at_a_time = FusedPlan::rows_at_a_time(problem, chunk_);
    const std::int64_t chunks = local > 0 ? (local + at_a_time - 1) / at_a_time : 0;
    Cost cost;
    const std::int64_t columns = problem.token_columns();
    cost.plan.workspace_bytes =
        RowTable::bytes(problem, local) + RowTable::bytes(problem, rows) + kPositionBytes * rows +
        ShardStatistics::bytes(problem, FusedPlan::statistics_rows(problem, chunk_)) +
        TeacherProduct::bytes(problem, at_a_time) +
        kFloatBytes * columns * (local + (gathers ? rows : 0)) +
        GradientTable::bytes(problem, rows + local) + ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    ShardStatistics::add_merges(problem, local, chunks, Exchange::one, cost.forward.tp);
    add_logits_traffic(problem, cost);
    TeacherProduct::add_gather(problem, cost.forward);
    for (PhaseCost* phase : {&cost.forward, &cost.backward}) {
      TeacherProduct::add_flops(problem, local, *phase);
    }
    if (gathers) cost.forward.cp.add(Collective::all_gather, 1, kFloatBytes * columns * local);
    if (chunk_ > 0) {
      ShardStatistics::add_merges(problem, local, chunks, Exchange::one, cost.backward.tp);
      add_statistics_traffic(problem, cost.backward);  // read again
    }
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<FusedPlan>(problem, context, steps_, chunk_);
  }

 private:
  Steps steps_;
  std::int64_t chunk_ = 0;  // 0: all rows at once
};

const RegisteredStrategy registered_fused{
    "fused",
    [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<Fused>(steps, options);
    },
    {{"chunk_tokens", {"1", "3", "7"}}, {"stream_bytes", {"0"}}}};

}  // namespace
}  // namespace lossgrid
