// SPDX-License-Identifier: Apache-2.0
// Mutants that keep what the backward needs outside of their plan, where the forward of the next
// microbatch replaces it.
#include <memory>
#include <utility>

#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Logits of the latest forward of this rank, whatever its plan.
thread_local const void* latest_logits = nullptr;

class SharedStatePlan final : public LossPlan {
 public:
  SharedStatePlan(const LossProblem&, RankContext, std::unique_ptr<LossPlan> own)
      : own_(std::move(own)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    latest_logits = inputs.logits;
    own_->forward(inputs, outputs);
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    LossInputs kept = inputs;
    kept.logits = latest_logits;
    own_->backward(kept, gradients);
  }

 private:
  std::unique_ptr<LossPlan> own_;
};

const RegisteredMutant in_flight_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "",
        .name = "state_of_latest_forward",
        .what = "the backward reads a static buffer that the forward of every microbatch fills",
        .strategy = "fused",
        .plan = plan_around<SharedStatePlan>,
        .rejected_by = "microbatches_in_flight",
    }),
};

}  // namespace
}  // namespace lossgrid
