// SPDX-License-Identifier: Apache-2.0
// linear_ce whose chunks are kept: a loop under plain automatic differentiation holds the logits of
// every chunk until the backward pass. The numbers are right; memory grows with the batch.
#include "harness/core/error.h"
#include "impls/strategy.h"

namespace lossgrid {
namespace {

class RetainedChunksPlan final : public LossPlan {
 public:
  RetainedChunksPlan(const LossProblem& problem, RankContext context,
                     std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    kept_ = FloatArray(context_.device, problem_.local_rows() * problem_.width(), "logits_kept");
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 private:
  const LossProblem& problem_;
  RankContext context_;
  std::unique_ptr<LossPlan> right_;
  FloatArray kept_;
};

class RetainedChunks final : public LossImplementation {
 public:
  Description describe() const override { return right_->describe(); }
  std::string why_unsupported(const LossProblem& problem) const override {
    return right_->why_unsupported(problem);
  }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  DType grad_logits_dtype(const LossProblem& problem) const override {
    return right_->grad_logits_dtype(problem);
  }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<RetainedChunksPlan>(problem, context, right_->plan(problem, context));
  }

 private:
  std::unique_ptr<LossImplementation> right_ =
      make_strategy("linear_ce", Steps(), {{"chunk_tokens", "3"}});
};

const Registered registered{[] {
  ImplementationEntry entry;
  entry.name = "mutant/linear_retained_chunks";
  entry.kind = ImplementationKind::mutant;
  entry.catalogue_id = "M55";
  entry.what = "linear_ce: the logits of every chunk are kept for the backward pass";
  entry.make = [](const ImplementationOptions& options) -> std::unique_ptr<LossImplementation> {
    require_known_options(options, {}, "mutant/linear_retained_chunks");
    return std::make_unique<RetainedChunks>();
  };
  return entry;
}()};

}  // namespace
}  // namespace lossgrid
