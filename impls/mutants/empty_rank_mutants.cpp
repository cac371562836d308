// SPDX-License-Identifier: Apache-2.0
// Mutants of CP ranks that have nothing to train on. One of them skips a collective: no number is
// wrong, and the ranks that wait for it must fail at once, not at a deadline.
#include <algorithm>
#include <numeric>

#include "harness/core/dtype.h"
#include "harness/device/memory/host_view.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// True if some row of this CP rank is trained on.
bool has_valid_rows(const LossProblem& problem, int cp_rank) {
  const std::vector<std::int64_t> own = cp_rows(problem.batch, problem.grid.cp, cp_rank);
  const std::vector<std::uint8_t> valid = shift_targets(problem.batch).gather(own).valid;
  return std::find(valid.begin(), valid.end(), std::uint8_t{1}) != valid.end();
}

/// `EarlyReturnPlan`: a CP rank with nothing to train on has a loss and a gradient of 0, and
/// returns before the gather over CP that the others enter.
class EarlyReturnPlan final : public LossPlan {
 public:
  EarlyReturnPlan(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : problem_(problem),
        device_(context.device),
        right_(std::move(right)),
        returns_(problem.grid.cp > 1 && !has_valid_rows(problem, context.cp.rank())) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    if (!returns_) return right_->forward(inputs, outputs);
    for (const std::span<float> column : outputs.tokens.columns()) {
      std::fill(column.begin(), column.end(), 0.0f);
    }
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    if (!returns_) return right_->backward(inputs, gradients);
    device_.fill(gradients.logits, 0, static_cast<std::size_t>(problem_.logits_bytes()),
                 MemorySpace::device);
  }

 private:
  const LossProblem& problem_;
  Device& device_;
  std::unique_ptr<LossPlan> right_;
  const bool returns_;
};

/// `ZeroOfLogitsPlan`: a CP rank with nothing to train on adds mean(logits) * 0 to its loss, as
/// frameworks do to give every parameter a gradient. Masked logits may be NaN or infinite.
class ZeroOfLogitsPlan final : public LossPlan {
 public:
  ZeroOfLogitsPlan(const LossProblem& problem, RankContext context, std::unique_ptr<LossPlan> right)
      : problem_(problem),
        device_(context.device),
        right_(std::move(right)),
        is_empty_(!has_valid_rows(problem, context.cp.rank())) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    if (is_empty_) outputs.result.loss += mean_of(inputs.logits) * 0;
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 private:
  double mean_of(const void* logits) const {
    const HostView view(device_, logits, static_cast<std::size_t>(problem_.logits_bytes()));
    return dispatch_floating(problem_.dtype, [&](auto zero) {
      const auto values = view.as<const decltype(zero)>();
      const double sum = std::accumulate(values.begin(), values.end(), 0.0, [](double a, auto x) {
        return a + static_cast<double>(static_cast<float>(x));
      });
      return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
    });
  }

  const LossProblem& problem_;
  Device& device_;
  std::unique_ptr<LossPlan> right_;
  const bool is_empty_;
};

const RegisteredMutant empty_rank_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M49",
        .name = "early_return",
        .what = "a CP rank with nothing valid returns before the collective",
        .strategy = "fused",
        .plan = plan_around<EarlyReturnPlan>,
        .seen_in = "torchtitan 0.3.0, empty vocabulary shard",
        .rejected_by = "error",
    }),
    RegisteredMutant({
        .catalogue_id = "M50",
        .name = "zero_of_logits",
        .what = "a CP rank with nothing valid adds mean(logits) * 0 to its loss",
        .strategy = "cp_local",
        .plan = plan_around<ZeroOfLogitsPlan>,
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
