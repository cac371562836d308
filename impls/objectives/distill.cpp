// SPDX-License-Identifier: Apache-2.0
// Distillation from a teacher's logits: the mean over the valid tokens of the global batch of a
// divergence between the teacher's and the student's distribution (NeMo-RL `DistillationLossFn`;
// TRL's GKD trainer for the generalised Jensen-Shannon divergence). The divergences are those of
// harness/problem/batch/row_terms.h. Where a teacher sends its top k alone, both distributions are
// renormalised over these ids; with zero_outside_topk the student's is that of the whole
// vocabulary.
#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/loss/tape.h"
#include "harness/loss/terms_kernels.h"
#include "impls/objectives/distill_terms.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

class DistillObjective final : public Objective {
 public:
  explicit DistillObjective(const Divergence& divergence) : divergence_(divergence) {}

  std::string_view kind() const override { return "distill"; }
  bool linear() const override { return true; }

  ObjectiveNeeds needs() const override {
    ObjectiveNeeds needs;
    needs.terms.divergence = divergence_;
    return needs;
  }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sums = DistillTerms::kSums;
    return sizes;
  }

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override {
    add_token_terms(terms(batch), tokens, coefficients, totals.sums.data(), totals.maxima.data(),
                    gradients);
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
    std::vector<std::int64_t> row_of;
    std::vector<Var> divergences;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.sample_mask[i] == 0) continue;
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0) continue;
        row_of.push_back(batch.cu_seqlens_padded[i] + t - 1);
        divergences.push_back(tape.variable(rows[row_of.back()].terms[RowTerm::divergence]));
      }
    }
    const std::int64_t tokens = batch.denominators.valid_tokens;
    const Var loss = tokens > 0 ? sum(divergences) / static_cast<double>(tokens) : Var(0.0);
    ObjectiveTruth truth;
    truth.loss = loss.enclosure();
    truth.grad_logprob.assign(rows.size(), 0.0);
    truth.grad_terms[RowTerm::divergence].assign(rows.size(), 0.0);
    const std::vector<Enclosure> gradient = tape.gradient(loss, divergences);
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      truth.grad_terms[RowTerm::divergence][row_of[k]] = gradient[k];
    }
    truth.metrics["loss"] = {Reduction::sum, truth.loss, 1};
    truth.metrics["num_unmasked_tokens"] = {Reduction::count, static_cast<double>(row_of.size()),
                                            1};
    truth.metrics["num_valid_samples"] = {Reduction::count, valid_samples(batch), 1};
    return truth;
  }

 private:
  static DistillTerms terms(const PackedBatch& batch) {
    const std::int64_t tokens = batch.denominators.valid_tokens;
    return {tokens > 0 ? 1 / static_cast<double>(tokens) : 0.0};
  }

  static double valid_samples(const PackedBatch& batch) {
    double samples = 0;
    for (const std::uint8_t mask : batch.sample_mask) samples += mask;
    return samples;
  }

  const Divergence divergence_;
};

Divergence read_divergence(const OptionReader& reader) {
  Divergence divergence;
  const std::string type = reader.one_of("kl_type", {"forward", "reverse", "jsd"}, "forward");
  divergence.beta = reader.number("jsd_beta", divergence.beta);
  divergence.on_support = !reader.flag("zero_outside_topk", false);
  if (!(divergence.beta > 0 && divergence.beta < 1)) {
    throw_bad_input("distill: jsd_beta must be in (0, 1)");
  }
  if (!divergence.on_support && type != "forward") {
    throw_bad_input("distill: zero_outside_topk = true needs kl_type = \"forward\"");
  }
  divergence.kind = type == "forward"   ? Divergence::Kind::forward
                    : type == "reverse" ? Divergence::Kind::reverse
                                        : Divergence::Kind::jsd;
  return divergence;
}

const Registered registered_distill{objective_entry(
    "distill", "divergence from a teacher's logits: forward or reverse KL, generalised JSD",
    read_divergence,
    [](const Divergence& divergence) { return std::make_unique<DistillObjective>(divergence); })};

}  // namespace
}  // namespace lossgrid
