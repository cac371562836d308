// SPDX-License-Identifier: Apache-2.0
// Mutants with right numbers and a wrong cost: memory, communication or products that the strategy
// does not declare.
#include <algorithm>
#include <vector>

#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// `PlanAround`: the right plan, with something added to its forward pass.
class PlanAround : public LossPlan {
 public:
  PlanAround(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 protected:
  std::int64_t local_logits() const { return problem_.local_rows() * problem_.width(); }

  const LossProblem& problem_;
  RankContext context_;

 private:
  std::unique_ptr<LossPlan> right_;
};

/// `UndeclaredGatherPlan`: gathers the logits over CP and does nothing with them.
class UndeclaredGatherPlan final : public PlanAround {
 public:
  UndeclaredGatherPlan(const LossProblem& problem, RankContext context,
                       std::unique_ptr<LossPlan> right)
      : PlanAround(problem, context, std::move(right)) {
    if (problem.grid.cp > 1) {
      logits_ = context.device.allocate(
          static_cast<std::size_t>(problem.logits_bytes() * problem.grid.cp), "logits_gathered");
    }
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    if (problem_.grid.cp > 1) {
      context_.cp.all_gather(inputs.logits, logits_.data(),
                             static_cast<std::size_t>(local_logits()), problem_.dtype);
    }
    PlanAround::forward(inputs, outputs);
  }

 private:
  Buffer logits_;
};

/// `RetainedChunksPlan`: keeps the logits of every chunk until the backward pass, as a chunk loop
/// under plain automatic differentiation does. At the last chunk all of them stand beside what the
/// right one needs.
class RetainedChunksPlan final : public PlanAround {
 public:
  using PlanAround::PlanAround;

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    kept_ = FloatArray(context_.device, local_logits(), "logits_kept", MemorySpace::device);
    PlanAround::forward(inputs, outputs);
  }

 private:
  FloatArray kept_;
};

/// `RetainedTeacherPlan`: keeps the logits that a teacher's hidden states make of every row.
class RetainedTeacherPlan final : public PlanAround {
 public:
  using PlanAround::PlanAround;

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    kept_ = FloatArray(context_.device, local_logits(), "teacher_kept", MemorySpace::device);
    PlanAround::forward(inputs, outputs);
  }

 private:
  FloatArray kept_;
};

/// `HiddenCopyPlan`: copies its input, logits or hidden states, into memory that no device accounts
/// for, all of it or one row.
template <bool whole>
class HiddenCopyPlan final : public PlanAround {
 public:
  using PlanAround::PlanAround;

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    PlanAround::forward(inputs, outputs);
    const bool hidden = problem_.from_hidden();
    const std::int64_t given = hidden ? problem_.hidden_rows() : problem_.local_rows();
    const std::int64_t rows = whole ? given : std::min<std::int64_t>(1, given);
    const std::int64_t width = hidden ? problem_.head.hidden : problem_.width();
    copy_.resize(static_cast<std::size_t>(rows * width * problem_.element_bytes()));
    context_.device.copy(copy_.data(), hidden ? inputs.hidden : inputs.logits, copy_.size());
  }

 private:
  std::vector<std::byte> copy_;
};

/// Adds half of the product twice: twice the work.
void product_in_halves(Device& device, const Gemm& product, std::span<float> workspace) {
  Gemm half = product;
  half.alpha /= 2;
  device.kernels().gemm(half, workspace);
  half.accumulate = true;
  device.kernels().gemm(half, workspace);
}

const RegisteredMutant cost_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M56",
        .name = "undeclared_gather",
        .what = "gathers the logits over CP and does not declare it",
        .strategy = "cp_local",
        .plan = plan_around<UndeclaredGatherPlan>,
        .rejected_by = "communication",
    }),
    RegisteredMutant({
        .catalogue_id = "M55",
        .name = "linear_retained_chunks",
        .what = "the logits of every chunk are kept for the backward pass",
        .strategy = "linear_ce",
        .options = {{"chunk_tokens", "3"}},
        .plan = plan_around<RetainedChunksPlan>,
        .rejected_by = "memory",
    }),
    RegisteredMutant({
        .catalogue_id = "M149",
        .name = "teacher_retained_chunks",
        .what = "the logits of a teacher's hidden states are kept for the backward pass",
        .strategy = "fused",
        .options = {{"chunk_tokens", "3"}},
        .runs_on = [](const LossProblem& problem) { return problem.makes_teacher(); },
        .plan = plan_around<RetainedTeacherPlan>,
        .rejected_by = "memory",
    }),
    RegisteredMutant({
        .name = "hidden_copy",
        .what = "keeps a copy of the logits in memory of the heap, which no device accounts for",
        .strategy = "cp_local",
        .plan = plan_around<HiddenCopyPlan<true>>,
        .rejected_by = "memory_from_device",
    }),
    RegisteredMutant({
        .name = "hidden_row",
        .what = "copies a row of the logits into memory of the heap, which no device accounts for",
        .strategy = "cp_local",
        .plan = plan_around<HiddenCopyPlan<false>>,
        .rejected_by = "memory_from_device",
    }),
    RegisteredMutant({
        .name = "product_twice",
        .what = "multiplies twice for the gradient of the weight, and adds half of each product",
        .strategy = "linear_ce",
        .change = [](Steps& steps) { steps.add_grad_weight = product_in_halves; },
        .rejected_by = "flops",
    }),
    RegisteredMutant({
        .name = "linear_hidden_row",
        .what =
            "copies a row of hidden states into memory of the heap, which no device accounts for",
        .strategy = "linear_ce",
        .plan = plan_around<HiddenCopyPlan<false>>,
        .rejected_by = "memory_from_device",
    }),
};

}  // namespace
}  // namespace lossgrid
