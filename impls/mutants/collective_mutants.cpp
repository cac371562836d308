// SPDX-License-Identifier: Apache-2.0
// Ranks that do not make the same calls: what decides whether a rank enters a collective is known
// to that rank alone. Nothing is wrong with a number; the others wait for a rank that does not come
// and must be told so at once, not at a deadline.
#include <algorithm>

#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Whether some row of this CP rank is trained on.
bool has_valid_rows(const LossProblem& problem, int cp_rank) {
  const std::vector<std::int64_t> own =
      cp_rows(problem.batch.cu_seqlens_padded, problem.grid.cp, cp_rank);
  const std::vector<std::uint8_t> valid = shift_targets(problem.batch).pick(own).valid;
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

std::unique_ptr<LossPlan> return_early(const LossProblem& problem, RankContext context,
                                       std::unique_ptr<LossPlan> right) {
  return std::make_unique<EarlyReturnPlan>(problem, context, std::move(right));
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
                      return_early}),
};

}  // namespace
}  // namespace lossgrid
