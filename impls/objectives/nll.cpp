// SPDX-License-Identifier: Apache-2.0
// Negative log-likelihood (SFT; NeMo-RL `NLLLossFn`). With M_t = token mask of the predicted token
// x sample mask, n_i the number of valid tokens of sequence i and G of the global batch:
//   token_level_loss: L = - sum_t M_t lp_t / G_tok
//   else:             L = - sum_i [ sum_t M_t lp_t / n_i ] / G_seq, where n_i = 0 contributes 0
// G = 0 gives loss 0 and gradient 0. (Upstream's 1e-8 in denominators is not reproduced.)
#include "harness/loss/registry.h"
#include "harness/loss/tape.h"
#include "harness/loss/terms_kernels.h"
#include "impls/objectives/nll_terms.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

double inverse_or_zero(double number) {
  return number > 0 ? 1 / number : 0.0;
}

class NllObjective final : public Objective {
 public:
  explicit NllObjective(bool token_level) : token_level_(token_level) {}

  std::string_view kind() const override { return "nll"; }
  bool linear() const override { return true; }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sequence_sums = token_level_ ? 0 : NllTerms::kSequenceSums;
    sizes.coefficients = token_level_ ? 0 : 1;  // weight of a token
    sizes.sums = NllTerms::kSums;
    return sizes;
  }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    add_sequence_sums(terms(batch), tokens, sums);
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    if (token_level_) return;
    const double weight = inverse_or_zero(global_number(batch));
    for (std::int64_t i = 0; i < sums.sequences; ++i) {
      coefficients.at(i, 0) = weight * inverse_or_zero(sums.at(i, 0));
    }
  }

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   std::span<float> grad_logprobs) const override {
    add_token_terms(terms(batch), tokens, coefficients, totals.sums.data(), totals.maxima.data(),
                    grad_logprobs);
  }

  std::unique_ptr<ObjectiveKernels> kernels(Backend backend,
                                            const PackedBatch& batch) const override {
    return terms_kernels(backend, terms(batch));
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> totals) const override {
    const double loss = totals.sums[0];
    return {loss,
            {{"loss", {Reduction::sum, loss, 1}},
             {"num_unmasked_tokens", {Reduction::count, totals.sums[1], 1}},
             {"num_valid_samples", {Reduction::count, valid_samples(batch), 1}}}};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    Tape tape;
    std::vector<Var> logprobs;
    std::vector<std::int64_t> row_of;
    std::vector<Var> terms;
    double samples = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.sample_mask[i] == 0) continue;
      samples += 1;
      std::vector<Var> of_sequence;
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0) continue;
        row_of.push_back(batch.cu_seqlens_padded[i] + t - 1);
        logprobs.push_back(tape.variable(rows[row_of.back()].logprob));
        of_sequence.push_back(-logprobs.back());
      }
      if (token_level_) {
        terms.insert(terms.end(), of_sequence.begin(), of_sequence.end());
      } else if (!of_sequence.empty()) {
        terms.push_back(sum(of_sequence) / static_cast<double>(of_sequence.size()));
      }
    }
    const Denominators& counts = batch.denominators;
    const std::int64_t number = token_level_ ? counts.valid_tokens : counts.valid_sequences;
    const Var loss = number > 0 ? sum(terms) / static_cast<double>(number) : Var(0.0);

    ObjectiveTruth truth;
    truth.loss = loss.enclosure();
    truth.grad_logprob.assign(rows.size(), 0.0);
    const std::vector<Enclosure> gradient = tape.gradient(loss, logprobs);
    for (std::size_t k = 0; k < gradient.size(); ++k) truth.grad_logprob[row_of[k]] = gradient[k];
    truth.metrics["loss"] = {Reduction::sum, truth.loss, 1};
    truth.metrics["num_unmasked_tokens"] = {Reduction::count, static_cast<double>(logprobs.size()),
                                            1};
    truth.metrics["num_valid_samples"] = {Reduction::count, samples, 1};
    return truth;
  }

 private:
  NllTerms terms(const PackedBatch& batch) const {
    return {token_level_, inverse_or_zero(global_number(batch))};
  }

  double global_number(const PackedBatch& batch) const {
    return static_cast<double>(token_level_ ? batch.denominators.valid_tokens
                                            : batch.denominators.valid_sequences);
  }

  static double valid_samples(const PackedBatch& batch) {
    double samples = 0;
    for (const std::uint8_t mask : batch.sample_mask) samples += mask;
    return samples;
  }

  const bool token_level_;
};

const Registered registered_nll{objective_entry(
    "nll", "negative log-likelihood of the valid tokens (SFT)",
    [](const OptionReader& reader) { return reader.flag("token_level_loss", true); },
    [](bool token_level) { return std::make_unique<NllObjective>(token_level); })};

}  // namespace
}  // namespace lossgrid
