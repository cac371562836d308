// SPDX-License-Identifier: Apache-2.0
// Mutants of the size of gradients from hidden states: 1 % too large, which is a bias, or
// alternately 1 % too large and too small, which is none but has an L2 error.
#include <memory>
#include <vector>

#include "harness/core/process/heap_watch.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

enum class ScaledGradient { hidden, weight, bias };

constexpr double kPart = 0.01;

/// `ScaledGradientPlan`: the right plan, with a gradient of which element k is multiplied by 1.01,
/// or 0.99 where `alternates` and k is odd.
template <ScaledGradient which, bool alternates>
class ScaledGradientPlan final : public LossPlan {
 public:
  ScaledGradientPlan(const LossProblem& problem, RankContext /*context*/,
                     std::unique_ptr<LossPlan> right)
      : problem_(problem), right_(std::move(right)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    if (which == ScaledGradient::hidden) {
      right_->backward(inputs, gradients);
      return scale_hidden(gradients.hidden);
    }
    float* summed = which == ScaledGradient::weight ? gradients.weight : gradients.bias;
    const std::int64_t elements =
        which == ScaledGradient::weight ? problem_.weight_elements() : problem_.bias_elements();
    std::vector<float> before;
    {
      const HeapWatchScope unwatched(nullptr);  // memory is not the mistake
      before.assign(summed, summed + elements);
    }
    right_->backward(inputs, gradients);
    for (std::int64_t k = 0; k < elements; ++k) {
      const float own = before[static_cast<std::size_t>(k)];
      summed[k] = static_cast<float>(own + factor(k) * (static_cast<double>(summed[k]) - own));
    }
  }

 private:
  static double factor(std::int64_t k) { return alternates && k % 2 == 1 ? 1 - kPart : 1 + kPart; }

  void scale_hidden(void* gradient) const {
    dispatch_floating(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* elements = static_cast<T*>(gradient);
      for (std::int64_t k = 0; k < problem_.hidden_rows() * problem_.head.hidden; ++k) {
        elements[k] = T(static_cast<float>(elements[k]) * static_cast<float>(factor(k)));
      }
    });
  }

  const LossProblem& problem_;
  std::unique_ptr<LossPlan> right_;
};

bool scales_on_host(const LossProblem& problem) {
  return problem.backend == Backend::cpu && problem.from_hidden();
}

bool scales_bias_on_host(const LossProblem& problem) {
  return scales_on_host(problem) && problem.head.has_bias;
}

const RegisteredMutant linear_scale_mutants[] = {
    RegisteredMutant({
        .name = "linear_grad_hidden_times_1.01",
        .what = "d hidden is 1 % too large",
        .strategy = "linear_ce",
        .runs_on = scales_on_host,
        .plan = plan_around<ScaledGradientPlan<ScaledGradient::hidden, false>>,
        .rejected_by = "grad_hidden_bias",
    }),
    RegisteredMutant({
        .name = "linear_grad_hidden_off_by_0.01",
        .what = "elements of d hidden are alternately 1 % too large and too small",
        .strategy = "linear_ce",
        .runs_on = scales_on_host,
        .plan = plan_around<ScaledGradientPlan<ScaledGradient::hidden, true>>,
        .rejected_by = "grad_hidden_l2",
    }),
    RegisteredMutant({
        .name = "linear_grad_weight_times_1.01",
        .what = "d weight is 1 % too large",
        .strategy = "linear_ce",
        .runs_on = scales_on_host,
        .plan = plan_around<ScaledGradientPlan<ScaledGradient::weight, false>>,
        .rejected_by = "grad_weight_bias",
    }),
    RegisteredMutant({
        .name = "linear_grad_weight_off_by_0.01",
        .what = "elements of d weight are alternately 1 % too large and too small",
        .strategy = "linear_ce",
        .runs_on = scales_on_host,
        .plan = plan_around<ScaledGradientPlan<ScaledGradient::weight, true>>,
        .rejected_by = "grad_weight_l2",
    }),
    RegisteredMutant({
        .name = "linear_grad_bias_times_1.01",
        .what = "d bias is 1 % too large",
        .strategy = "linear_ce",
        .runs_on = scales_bias_on_host,
        .plan = plan_around<ScaledGradientPlan<ScaledGradient::bias, false>>,
        .rejected_by = "grad_bias_bias",
    }),
    RegisteredMutant({
        .name = "linear_grad_bias_off_by_0.01",
        .what = "elements of d bias are alternately 1 % too large and too small",
        .strategy = "linear_ce",
        .runs_on = scales_bias_on_host,
        .plan = plan_around<ScaledGradientPlan<ScaledGradient::bias, true>>,
        .rejected_by = "grad_bias_l2",
    }),
};

}  // namespace
}  // namespace lossgrid
