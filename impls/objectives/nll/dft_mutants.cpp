// SPDX-License-Identifier: Apache-2.0
// Mutant of nll with loss_type "dft": weights that have a gradient.
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

bool asks_for_dft(const ObjectiveSpec& spec) {
  const auto type = spec.options.find("loss_type");
  return spec.kind == "nll" && type != spec.options.end() && type->second == "\"dft\"";
}

/// Gives p lp the gradient p (1 + lp).
void gradient_of_weights(const Objective& objective, const ObjectiveTokens& tokens,
                         const PackedBatch& batch, int /*cp*/,
                         SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                         const TokenGradients& grad) {
  objective.token_terms(tokens, batch, coefficients, totals, grad);
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] != 0) grad.logprob[t] *= 1 + tokens.logprobs[t];
  }
}

const RegisteredMutant dft_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M218",
        .name = "dft_gradient_of_weights",
        .what = "dft: the probability that weighs a token has a gradient",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = gradient_of_weights; },
        .runs_on = [](const LossProblem& problem) { return asks_for_dft(problem.objective_spec); },
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
