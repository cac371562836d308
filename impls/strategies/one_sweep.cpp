// SPDX-License-Identifier: Apache-2.0
// one_sweep: cp_local as a fused forward-backward, with one pass over memory. For each block of
// rows it computes statistics, their merge over TP (one gather per block), the objective, and the
// gradient while the logits are still in a cache. If the objective is linear, TP is 1 and only
// log-probabilities are requested, blocks are single rows and exponentials are computed once.
// Objectives whose gradient needs sums over sequences are unsupported.
//
// Options: in_place=true writes the gradient over the logits; block_tokens=c rows in a block (as
// many as make 4 MiB); stream_bytes=n: a gradient of n bytes or more is written past the caches,
// block by block, unless it is in place (16 MiB).
#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/backend.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"
#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_product.h"

namespace lossgrid {
namespace {

struct OneSweepOptions {
  bool in_place = false;
  std::int64_t block_tokens = 0;  // 0: by size

  /// True if the exponentials of a row become its gradient.
  static bool keeps_exponentials(const LossProblem& problem) {
    return problem.grid.tp == 1 && problem.dtype != DType::f64 && problem.objective.linear() &&
           !problem.row_statistics() && !problem.predictions() && !problem.terms().any() &&
           problem.row_transform().is_identity() && !problem.sampling.has_mask;
  }

  std::int64_t block_rows(const LossProblem& problem) const {
    const std::int64_t rows = problem.local_rows();
    if (keeps_exponentials(problem)) return rows;
    // Read again from the last-level cache, which ranks and cores share.
    constexpr std::int64_t kBlockBytes = std::int64_t{1} << 22;
    const std::int64_t row_bytes = problem.width() * problem.element_bytes();
    const std::int64_t by_size = std::max<std::int64_t>(1, kBlockBytes / row_bytes);
    return std::min(rows, block_tokens > 0 ? block_tokens : by_size);
  }

  std::int64_t blocks(const LossProblem& problem) const {
    const std::int64_t rows = block_rows(problem);
    return rows > 0 ? (problem.local_rows() + rows - 1) / rows : 0;
  }

  std::int64_t scratch_floats(const LossProblem& problem) const {
    if (!keeps_exponentials(problem) || traits_of(problem.backend).launches_kernels) return 0;
    return forward_backward_scratch_floats(problem.dtype, vocab_shard(problem.vocab, 1, 0),
                                           in_place);
  }
};

class OneSweepPlan final : public LossPlan {
 public:
  OneSweepPlan(const LossProblem& problem, RankContext context, const Steps& steps,
               const OneSweepOptions& options)
      : problem_(problem),
        context_(context),
        steps_(steps),
        keeps_exponentials_(OneSweepOptions::keeps_exponentials(problem)),
        shard_(steps.shard_vocab(problem.vocab, problem.grid.tp, context.tp.rank())),
        blocks_(steps.chunks(problem.local_rows(),
                             std::max<std::int64_t>(1, options.block_rows(problem)))),
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank()),
               problem),
        teacher_(problem, context, steps, local_, options.block_rows(problem)),
        statistics_(context.device, problem, steps, options.block_rows(problem)),
        scratch_(context.device, options.scratch_floats(problem), "exponentials",
                 MemorySpace::device),
        grad_(context.device, problem, problem.local_rows()),
        objective_(context.device, problem, steps) {}

  void forward(const LossInputs& /*inputs*/, LossOutputs& /*outputs*/) override { refuse(); }
  void backward(const LossInputs& /*inputs*/, LossGradients& /*gradients*/) override { refuse(); }

  void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                        LossGradients& gradients) override {
    const LogitsRows rows = logits_rows(problem_, shard_, inputs, local_, steps_.stream_bytes);
    outputs.owned_labels = 0;
    teacher_.gather(inputs);
    begin(outputs);
    for (const RowRange& range : blocks_) {
      const std::int64_t bytes = shard_.width * problem_.element_bytes();
      LogitsRows block = rows.slice(range.begin, range.count);
      teacher_.make(range.begin, block);
      run_block(range, block, outputs,
                static_cast<std::byte*>(gradients.logits) + range.begin * bytes);
    }
    finish(outputs);
  }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::internal, "one_sweep does forward and backward together");
  }

  ObjectiveTokens tokens(const LossOutputs& outputs) const {
    return local_.tokens(outputs.tokens, 0, local_.rows());
  }

  /// Makes everything that the first block needs.
  void begin(LossOutputs& outputs) {
    if (!problem_.objective.linear()) {
      objective_.begin();
      objective_.make_coefficients();
      return;
    }
    // The gradient does not depend on the outputs, so any values serve.
    for (const std::span<float> column : outputs.tokens.columns()) {
      std::fill(column.begin(), column.end(), 0.0f);
    }
    objective_.gradient_alone(context_.cp, tokens(outputs), grad_.all());
  }

  void run_block(const RowRange& range, const LogitsRows& rows, LossOutputs& outputs,
                 void* gradient) {
    const TokenOutputs out = outputs.tokens.part(range.begin, range.count);
    const TokenGradients grad = grad_.part(range.begin, range.count);
    statistics_.select(0, range.count);
    if (keeps_exponentials_) {
      outputs.owned_labels += steps_.forward_backward(rows, grad.logprob.data(), scratch_.span(),
                                                      statistics_.own(0), gradient);
      statistics_.write(steps_, rows.targets, out);
      return;
    }
    outputs.owned_labels += statistics_.run(steps_, context_.tp, rows, out);
    if (!problem_.objective.linear()) {
      objective_.add_tokens(local_.tokens(outputs.tokens, range.begin, range.count), grad);
    }
    steps_.gradient(rows, statistics_.softmax(), row_gradients(grad), gradient);
  }

  void finish(LossOutputs& outputs) {
    if (problem_.objective.linear()) {
      outputs.result = objective_.run_local(context_.cp, tokens(outputs), grad_.all());
      return;
    }
    if (problem_.grid.cp > 1) objective_.reduce_totals(context_.cp);
    outputs.result = objective_.result();
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  const bool keeps_exponentials_;
  VocabShard shard_;
  std::vector<RowRange> blocks_;
  RowTable local_;
  TeacherProduct teacher_;      // of a block
  ShardStatistics statistics_;  // of a block
  FloatArray scratch_;
  GradientTable grad_;
  ObjectivePass objective_;
};

OneSweepOptions read_options(const ImplementationOptions& options) {
  require_known_options(options, {"in_place", "block_tokens", "stream_bytes"}, "one_sweep");
  OneSweepOptions read;
  if (const auto rows = options.find("block_tokens"); rows != options.end()) {
    read.block_tokens =
        parse_integer(rows->second, "one_sweep: block_tokens", 1, std::int64_t{1} << 31);
  }
  if (const auto place = options.find("in_place"); place != options.end()) {
    if (place->second != "true" && place->second != "false") {
      throw_bad_input("one_sweep: in_place = '{}' is neither true nor false", place->second);
    }
    read.in_place = place->second == "true";
  }
  return read;
}

class OneSweep final : public LossImplementation {
 public:
  OneSweep(const Steps& steps, const ImplementationOptions& options)
      : steps_(steps), options_(read_options(options)) {
    steps_.stream_bytes = read_stream_bytes(options, "one_sweep");
  }

  ImplementationTraits describe() const override {
    ImplementationTraits traits{"one_sweep",
                                "own rows only; forward and backward of a block at once",
                                LogprobScope::shard, steps_.serial_adds};
    traits.one_sweep = true;
    traits.in_place = options_.in_place;
    return traits;
  }

  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    if (problem.objective.linear()) return std::nullopt;
    const ObjectiveSizes sizes = problem.objective.sizes();
    if (sizes.selection_numbers > 0) {
      return SkipReason{"all tokens decide about each of them: one sweep comes too early"};
    }
    if (sizes.sequence_sums == 0) return std::nullopt;
    return SkipReason{
        "the gradient of a token depends on sums over its sequence: one sweep comes too early"};
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t local = problem.local_rows();
    Cost cost;
    cost.plan.workspace_bytes = RowTable::bytes(problem, local) +
                                ShardStatistics::bytes(problem, options_.block_rows(problem)) +
                                TeacherProduct::bytes(problem, options_.block_rows(problem)) +
                                kFloatBytes * options_.scratch_floats(problem) +
                                GradientTable::bytes(problem, local) +
                                ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    if (!OneSweepOptions::keeps_exponentials(problem)) {
      ShardStatistics::add_merges(problem, local, options_.blocks(problem), Exchange::one,
                                  cost.forward.tp);
    }
    if (problem.grid.cp > 1) {
      ObjectivePass::add_reductions(problem, cost.forward.cp);
      if (problem.objective.linear()) {
        ObjectivePass::add_sequence_reduction(problem, cost.forward.cp);
      }
    }
    cost.forward.read_bytes = problem.logits_bytes() + problem.mask_bytes();
    add_teacher_reads(problem, 1, cost.forward);
    cost.forward.written_bytes = problem.logits_bytes();
    TeacherProduct::add_gather(problem, cost.forward);
    TeacherProduct::add_flops(problem, local, cost.forward);
    if (OneSweepOptions::keeps_exponentials(problem)) {
      cost.forward.exponentials = cost.forward.gradients = problem.logits_elements();
      cost.forward.kept_exponentials = problem.logits_elements();
    } else {
      add_statistics_work(problem, cost.forward);
      add_gradient_work(problem, cost.forward);
    }
    // The gradient reads its block again. If exponentials are kept, a GPU reads only the part that
    // does not fit on a multiprocessor.
    if (!OneSweepOptions::keeps_exponentials(problem) ||
        traits_of(problem.backend).launches_kernels) {
      PhaseCost again;
      add_teacher_reads(problem, teacher_statistics_reads(problem) + divergence_reads(problem),
                        again);
      cost.forward.cached_read_bytes += (1 + divergence_reads(problem)) * problem.logits_bytes() +
                                        problem.mask_bytes() + again.read_bytes +
                                        again.cached_read_bytes;
    }
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<OneSweepPlan>(problem, context, steps_, options_);
  }

 private:
  Steps steps_;
  OneSweepOptions options_;
};

const RegisteredStrategy registered_one_sweep{
    "one_sweep",
    [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<OneSweep>(steps, options);
    },
    {{"in_place", {"true"}}, {"block_tokens", {"1", "3"}}, {"stream_bytes", {"0"}}}};

}  // namespace
}  // namespace lossgrid
