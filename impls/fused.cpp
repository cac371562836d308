// SPDX-License-Identifier: Apache-2.0
// fused: one pass over the whole pack. TP statistics of all rows in three all-reduces, ONE gather
// of log-probabilities over CP for the whole pack, the objective on full sequences on every CP
// rank, and the gradient of the own rows only (the loss is replicated, so the adjoint of the gather
// is a selection). After NeMo-RL `SequencePackingFusionLossWrapper` and SkyRL's packed gather.
//
// Option chunk_tokens=c: statistics chunk by chunk of c rows, recomputed in the backward pass.
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "impls/strategy.h"

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
                             chunked_ ? chunk : std::max<std::int64_t>(1, problem.local_rows()))),
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank())),
        pack_(context.device, steps.shift(problem.batch)),
        order_(copy_positions(context.device,
                              steps.gather_order(problem.batch, steps, problem.grid.cp))),
        max_(context.device, statistics_rows(problem, chunk), "statistics"),
        sum_(context.device, statistics_rows(problem, chunk), "statistics"),
        local_logprobs_(context.device, problem.local_rows(), "logprobs_local"),
        received_(context.device, problem.grid.cp > 1 ? problem.rows() : 0, "logprobs_received"),
        pack_grad_(context.device, problem.rows(), "grad_logprobs"),
        local_grad_(context.device, problem.local_rows(), "grad_logprobs"),
        partials_(static_cast<std::size_t>(problem.objective.partial_sums())) {}

  static std::int64_t statistics_rows(const LossProblem& problem, std::int64_t chunk) {
    return chunk > 0 ? std::min(chunk, problem.local_rows()) : problem.local_rows();
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    const LogitsRows rows = view(inputs);
    outputs.owned_labels = 0;
    for (const RowRange& chunk : chunks_) {
      outputs.owned_labels += row_logprobs(
          steps_, context_.tp, rows.slice(chunk.begin, chunk.count), max_.span(0, chunk.count),
          sum_.span(0, chunk.count), local_logprobs_.span(chunk.begin, chunk.count));
    }
    std::span<const float> ranks_rows = local_logprobs_.span();
    if (problem_.grid.cp > 1) {
      context_.cp.all_gather(ranks_rows, received_.span());
      ranks_rows = received_.span();
    }
    for (std::size_t k = 0; k < ranks_rows.size(); ++k) outputs.logprobs[order_[k]] = ranks_rows[k];

    std::fill(partials_.begin(), partials_.end(), 0.0);
    steps_.token_terms(problem_.objective, pack_.tokens(outputs.logprobs, 0, problem_.rows()),
                       problem_.batch, problem_.grid.cp, partials_, pack_grad_.span());
    outputs.result = problem_.objective.finish(problem_.batch, partials_);

    const std::int64_t own = context_.cp.rank() * problem_.local_rows();
    for (std::int64_t k = 0; k < problem_.local_rows(); ++k) {
      local_grad_[k] = pack_grad_[order_[own + k]];
    }
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const LogitsRows rows = view(inputs);
    const std::int64_t row_bytes =
        shard_.width * static_cast<std::int64_t>(size_of(problem_.dtype));
    for (const RowRange& range : chunks_) {
      const LogitsRows chunk = rows.slice(range.begin, range.count);
      if (chunked_) {
        steps_.max(chunk, max_.data());
        steps_.reduce_max(context_.tp, max_.span(0, range.count));
        steps_.sum_exp(chunk, max_.data(), sum_.data());
        steps_.reduce_sum(context_.tp, sum_.span(0, range.count));
      }
      steps_.gradient(chunk, max_.data(), sum_.data(), local_grad_.data() + range.begin,
                      static_cast<std::byte*>(gradients.logits) + range.begin * row_bytes);
    }
  }

 private:
  LogitsRows view(const LossInputs& inputs) const {
    return logits_rows(problem_, shard_, inputs, local_);
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  bool chunked_;
  VocabShard shard_;
  std::vector<RowRange> chunks_;
  RowTable local_;
  RowTable pack_;
  DeviceArray<std::int32_t> order_;
  FloatArray max_;
  FloatArray sum_;
  FloatArray local_logprobs_;
  FloatArray received_;
  FloatArray pack_grad_;
  FloatArray local_grad_;
  std::vector<double> partials_;
};

class Fused final : public LossImplementation {
 public:
  Fused(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {"chunk_tokens"}, "fused");
    const auto chunk = options.find("chunk_tokens");
    if (chunk != options.end()) {
      chunk_ = parse_integer(chunk->second, "fused: chunk_tokens", 1, std::int64_t{1} << 31);
    }
  }

  Description describe() const override {
    return {"fused", "one pass over the pack, one gather of log-probabilities over CP",
            LogprobScope::pack, steps_.serial_adds};
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t rows = problem.rows();
    const std::int64_t local = problem.local_rows();
    const bool gathers = problem.grid.cp > 1;
    const std::int64_t chunks = chunk_ > 0 ? (local + chunk_ - 1) / chunk_ : (local > 0 ? 1 : 0);
    Cost cost;
    cost.plan.workspace_bytes =
        RowTable::bytes(local) + RowTable::bytes(rows) + kPositionBytes * rows +
        2 * kFloatBytes * FusedPlan::statistics_rows(problem, chunk_) + kFloatBytes * local +
        (gathers ? kFloatBytes * rows : 0) + kFloatBytes * rows + kFloatBytes * local;
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    cost.forward.tp.add(Collective::all_reduce, 3 * chunks, 3 * kFloatBytes * local);
    if (gathers) cost.forward.cp.add(Collective::all_gather, 1, kFloatBytes * local);
    if (chunk_ > 0)
      cost.backward.tp.add(Collective::all_reduce, 2 * chunks, 2 * kFloatBytes * local);
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<FusedPlan>(problem, context, steps_, chunk_);
  }

 private:
  Steps steps_;
  std::int64_t chunk_ = 0;  // 0: all rows at once
};

const RegisteredStrategy registered{"fused",
                                    [](const Steps& steps, const ImplementationOptions& options) {
                                      return std::make_unique<Fused>(steps, options);
                                    }};

}  // namespace
}  // namespace lossgrid
