// SPDX-License-Identifier: Apache-2.0
// Negative log-likelihood (SFT; NeMo-RL `NLLLossFn`). With M_t = token mask of the predicted token
// x sample mask, n_i the number of valid tokens of sequence i and G of the global batch:
//   token_level_loss: L = sum_t M_t l_t / G_tok
//   else:             L = sum_i [ sum_t M_t l_t / n_i ] / G_seq, where n_i = 0 contributes 0
// G = 0 gives loss 0 and gradient 0. (Upstream's 1e-8 in denominators is not reproduced.) The loss
// of a token is, with label_smoothing e (Szegedy et al., "Rethinking the Inception Architecture",
// 2016; Megatron-LM's option of the same name) and z_loss_coefficient c (Chowdhery et al., "PaLM",
// 2022),
//   l_t = - (1 - e) lp_t - (e / V) sum_v ln p_v + c logsumexp(z)^2,
// where logits of -inf contribute nothing to the sum over v. With loss_type "dft" it is - p lp_t,
// the probability p = e^lp_t as a weight without gradient (Dynamic Fine-Tuning, arXiv:2508.05629).
#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/loss/tape.h"
#include "harness/loss/terms_objective.h"
#include "impls/objectives/nll/nll_terms.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

double inverse_or_zero(double number) {
  return number > 0 ? 1 / number : 0.0;
}

ObjectiveNeeds nll_needs(const NllOptions& options) {
  ObjectiveNeeds needs;
  if (options.label_smoothing != 0) needs.terms.add(RowTerm::mean_logprob);
  if (options.z_loss_coefficient != 0) needs.terms.add(RowTerm::logsumexp);
  needs.probability_weights = options.weighs_by_probability;
  return needs;
}

class NllObjective final : public TermsObjective<NllTerms> {
 public:
  explicit NllObjective(const NllOptions& options)
      : TermsObjective(nll_needs(options)), options_(options) {}

  std::string_view kind() const override { return "nll"; }
  bool linear() const override {
    return options_.z_loss_coefficient == 0 && !options_.weighs_by_probability;
  }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sequence_sums = options_.token_level_loss ? 0 : NllTerms::kSequenceSums;
    sizes.coefficients = options_.token_level_loss ? 0 : 1;  // weight of a token
    sizes.sums = NllTerms::kSums;
    return sizes;
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    if (options_.token_level_loss) return;
    const double weight = inverse_or_zero(global_number(batch));
    for (std::int64_t i = 0; i < sums.sequences; ++i) {
      coefficients.at(i, 0) = weight * inverse_or_zero(sums.at(i, 0));
    }
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
    TrueTokens tokens;
    std::vector<Var> terms;
    double samples = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.sample_mask[i] == 0) continue;
      samples += 1;
      std::vector<Var> of_sequence;
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0) continue;
        const std::int64_t row = batch.cu_seqlens_padded[i] + t - 1;
        of_sequence.push_back(true_loss(tape, row, rows[row], tokens));
      }
      if (options_.token_level_loss) {
        terms.insert(terms.end(), of_sequence.begin(), of_sequence.end());
      } else if (!of_sequence.empty()) {
        terms.push_back(sum(of_sequence) / static_cast<double>(of_sequence.size()));
      }
    }
    const Denominators& counts = batch.denominators;
    const std::int64_t number =
        options_.token_level_loss ? counts.valid_tokens : counts.valid_sequences;
    const Var loss = number > 0 ? sum(terms) / static_cast<double>(number) : Var(0.0);

    ObjectiveTruth truth;
    truth.loss = loss.enclosure();
    const auto gradient = [&](const std::vector<Var>& inputs) {
      std::vector<Enclosure> by_row(rows.size(), 0.0);
      const std::vector<Enclosure> by_input = tape.gradient(loss, inputs);
      for (std::size_t k = 0; k < by_input.size(); ++k) by_row[tokens.row[k]] = by_input[k];
      return by_row;
    };
    truth.grad_logprob = gradient(tokens.logprob);
    for (const RowTerm term : kAllGradientTerms) {
      if (!tokens.terms[term].empty()) truth.grad_terms[term] = gradient(tokens.terms[term]);
    }
    truth.metrics["loss"] = {Reduction::sum, truth.loss, 1};
    truth.metrics["num_unmasked_tokens"] = {Reduction::count,
                                            static_cast<double>(tokens.row.size()), 1};
    truth.metrics["num_valid_samples"] = {Reduction::count, samples, 1};
    return truth;
  }

 private:
  /// Rows of the valid tokens and their numbers on a tape; unneeded numbers are empty.
  struct TrueTokens {
    std::vector<std::int64_t> row;
    std::vector<Var> logprob;
    ByGradientTerm<std::vector<Var>> terms;
  };

  /// Adds the token that `row` predicts to `tokens` and returns its loss.
  Var true_loss(Tape& tape, std::int64_t row, const TokenTruth& truth, TrueTokens& tokens) const {
    const double smoothing = options_.label_smoothing;
    tokens.row.push_back(row);
    tokens.logprob.push_back(tape.variable(truth.logprob));
    Var loss = -tokens.logprob.back();
    if (options_.weighs_by_probability) loss = detach(exp(tokens.logprob.back())) * loss;
    if (smoothing != 0) {
      std::vector<Var>& mean_logprob = tokens.terms[RowTerm::mean_logprob];
      mean_logprob.push_back(tape.variable(truth.terms[RowTerm::mean_logprob]));
      loss = Var(1 - smoothing) * loss - Var(smoothing) * mean_logprob.back();
    }
    if (options_.z_loss_coefficient != 0) {
      tokens.terms[RowTerm::logsumexp].push_back(tape.variable(truth.terms[RowTerm::logsumexp]));
      const Var& logsumexp = tokens.terms[RowTerm::logsumexp].back();
      loss += Var(options_.z_loss_coefficient) * logsumexp * logsumexp;
    }
    return loss;
  }

  NllTerms terms(const PackedBatch& batch) const override {
    return {options_, inverse_or_zero(global_number(batch))};
  }

  double global_number(const PackedBatch& batch) const {
    return static_cast<double>(options_.token_level_loss ? batch.denominators.valid_tokens
                                                         : batch.denominators.valid_sequences);
  }

  static double valid_samples(const PackedBatch& batch) {
    double samples = 0;
    for (const std::uint8_t mask : batch.sample_mask) samples += mask;
    return samples;
  }

  const NllOptions options_;
};

NllOptions read_nll_options(const OptionReader& reader) {
  NllOptions options;
  constexpr NumberRule kShareBelow1{"must be in [0, 1)", [](double x) { return x >= 0 && x < 1; }};
  reader.read("token_level_loss", options.token_level_loss,
              {"false: mean over sequences of their token means", "not in NeMo-RL"});
  reader.read("label_smoothing", options.label_smoothing,
              {"e: (1 - e) of the NLL, and e of the mean over the vocabulary of - ln p",
               "Megatron-LM, `F.cross_entropy`",
               kShareBelow1,
               {"0.2"}});
  reader.read("z_loss_coefficient", options.z_loss_coefficient,
              {"c: adds c logsumexp² of every token",
               "Liger `lse_square_scale`, torchtitan",
               kNotNegative,
               {"0.01"}});
  options.weighs_by_probability =
      reader.index(
          "loss_type", 0, {"nll", "dft"},
          {"`dft`: a token's negative log-likelihood times its probability, which has no gradient "
           "(Dynamic Fine-Tuning); without `label_smoothing` and `z_loss_coefficient`",
           "TRL SFT `loss_type`"}) == 1;
  reader.require_all_known();
  if (options.weighs_by_probability &&
      (options.label_smoothing != 0 || options.z_loss_coefficient != 0)) {
    throw_bad_input("nll: loss_type = \"dft\" excludes label_smoothing and z_loss_coefficient");
  }
  return options;
}

const Registered registered_nll{objective_entry(
    "nll", "negative log-likelihood of the valid tokens (SFT), label smoothing, z-loss",
    read_nll_options,
    [](const NllOptions& options) { return std::make_unique<NllObjective>(options); })};

}  // namespace
}  // namespace lossgrid
