// SPDX-License-Identifier: Apache-2.0
// Negative log-likelihood, token level (SFT): L = - sum_t M_t lp_t / G, with M_t = token mask of
// the predicted token x sample mask and G the number of valid tokens of the global batch. G = 0
// gives loss 0 and gradient 0. (NeMo-RL `NLLLossFn`; its 1e-8 in the denominator is not
// reproduced.)
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

double inverse_or_zero(std::int64_t count) {
  return count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
}

class NllObjective final : public Objective {
 public:
  std::string_view kind() const override { return "nll"; }

  int partial_sums() const override { return 2; }  // - sum of log-probabilities, valid tokens

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   std::span<double> partials, std::span<float> grad_logprobs) const override {
    const auto gradient = static_cast<float>(-inverse_or_zero(batch.denominators.valid_tokens));
    for (std::size_t t = 0; t < tokens.logprobs.size(); ++t) {
      const bool valid = tokens.valid[t] != 0;
      if (valid) {
        partials[0] -= tokens.logprobs[t];
        partials[1] += 1;
      }
      grad_logprobs[t] = valid ? gradient : 0.0f;
    }
  }

  ObjectiveResult finish(const PackedBatch& batch,
                         std::span<const double> partials) const override {
    double samples = 0;
    for (const std::uint8_t mask : batch.sample_mask) samples += mask;
    const double loss = partials[0] * inverse_or_zero(batch.denominators.valid_tokens);
    return {loss,
            {{"loss", loss}, {"num_unmasked_tokens", partials[1]}, {"num_valid_samples", samples}}};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const double> logprobs) const override {
    ObjectiveTruth truth;
    truth.grad_logprob.assign(logprobs.size(), 0.0);
    const double tokens = static_cast<double>(batch.denominators.valid_tokens);
    double sum = 0;
    double count = 0;
    double samples = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      samples += batch.sample_mask[i];
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0 || batch.sample_mask[i] == 0) continue;
        const std::int64_t row = batch.cu_seqlens_padded[i] + t - 1;
        sum += logprobs[row];
        count += 1;
        truth.grad_logprob[row] = -1.0 / tokens;
      }
    }
    truth.loss = count == 0 ? 0.0 : -sum / tokens;
    truth.metrics["loss"] = {truth.loss, truth.grad_logprob};
    truth.metrics["num_unmasked_tokens"] = {count, {}};
    truth.metrics["num_valid_samples"] = {samples, {}};
    return truth;
  }
};

const Registered registered{
    ObjectiveEntry{"nll", "negative log-likelihood over the valid tokens of the global batch (SFT)",
                   [](const ObjectiveOptions& options) -> std::unique_ptr<Objective> {
                     require_known_options(options, {}, "nll");
                     return std::make_unique<NllObjective>();
                   }}};

}  // namespace
}  // namespace lossgrid
