// SPDX-License-Identifier: Apache-2.0
// Mutants of CP ranks that have nothing to train on. One of them skips a collective: nothing is
// wrong with a number, and the others, who wait for it, must be told so at once, not at a deadline.
#include <algorithm>
#include <numeric>

#include "harness/core/dtype.h"
#include "harness/device/memory/host_view.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Whether some row of this CP rank is trained on.
bool has_valid_rows(const LossProblem& problem, int cp_rank) {
  const std::vector<std::int64_t> own =
      cp_rows(problem.batch.cu_seqlens_padded, problem.grid.cp, cp_rank);
  const std::vector<std::uint8_t> valid = shift_targets(problem.batch).gather(own).valid;
  return std::find(valid.begin(), valid.end(), std::uint8_t{1}) != valid.end();
}

/// A CP rank with nothing to train on has a loss and a gradient of 0, and returns before the gather
/// over CP that the others enter.
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

/// A CP rank with nothing to train on adds mean(logits) * 0 to its loss, which frameworks do so
/// that every parameter has a gradient. Masked logits may be NaN or infinite.
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

template <typename Plan>
std::unique_ptr<LossPlan> around(const LossProblem& problem, RankContext context,
                                 std::unique_ptr<LossPlan> right) {
  return std::make_unique<Plan>(problem, context, std::move(right));
}

const RegisteredMutant mutants[] = {
    RegisteredMutant({"M49",
                      "early_return",
                      "a CP rank with nothing valid returns before the collective",
                      "fused",
                      keep_steps,
                      {},
                      nullptr,
                      nullptr,
                      around<EarlyReturnPlan>}),
    RegisteredMutant({"M50",
                      "zero_of_logits",
                      "a CP rank with nothing valid adds mean(logits) * 0 to its loss",
                      "cp_local",
                      keep_steps,
                      {},
                      nullptr,
                      nullptr,
                      around<ZeroOfLogitsPlan>}),
};

}  // namespace
}  // namespace lossgrid
