// SPDX-License-Identifier: Apache-2.0
// Right numbers at a wrong price: what memory or communication a strategy takes is not what it
// says.
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Gathers the logits over CP and does nothing with them.
class UndeclaredGatherPlan final : public LossPlan {
 public:
  UndeclaredGatherPlan(const LossProblem& problem, RankContext context,
                       std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {
    if (problem.grid.cp > 1) {
      logits_ = context.device.allocate(
          static_cast<std::size_t>(problem.logits_bytes() * problem.grid.cp), "logits_gathered");
    }
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    if (problem_.grid.cp > 1) {
      context_.cp.all_gather(inputs.logits, logits_.data(),
                             static_cast<std::size_t>(problem_.local_rows() * problem_.width()),
                             problem_.dtype);
    }
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 private:
  const LossProblem& problem_;
  RankContext context_;
  std::unique_ptr<LossPlan> right_;
  Buffer logits_;
};

/// Keeps the logits of every chunk, as a loop under plain automatic differentiation does until the
/// backward pass.
class RetainedChunksPlan final : public LossPlan {
 public:
  RetainedChunksPlan(const LossProblem& problem, RankContext context,
                     std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    kept_ = FloatArray(context_.device, problem_.local_rows() * problem_.width(), "logits_kept",
                       MemorySpace::device);
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

template <typename Plan>
std::unique_ptr<LossPlan> around(const LossProblem& problem, RankContext context,
                                 std::unique_ptr<LossPlan> right) {
  return std::make_unique<Plan>(problem, context, std::move(right));
}

const RegisteredMutant mutants[] = {
    RegisteredMutant({"M56",
                      "undeclared_gather",
                      "gathers the logits over CP and does not say so",
                      "cp_local",
                      keep_steps,
                      {},
                      nullptr,
                      nullptr,
                      around<UndeclaredGatherPlan>}),
    RegisteredMutant({"M55",
                      "linear_retained_chunks",
                      "the logits of every chunk are kept for the backward pass",
                      "linear_ce",
                      keep_steps,
                      {{"chunk_tokens", "3"}},
                      nullptr,
                      nullptr,
                      around<RetainedChunksPlan>}),
};

}  // namespace
}  // namespace lossgrid
