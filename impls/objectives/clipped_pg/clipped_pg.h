// SPDX-License-Identifier: Apache-2.0
// `clipped_pg`: the clipped policy-gradient loss of PPO, GRPO, GSPO, CISPO and REINFORCE with
// importance sampling correction, a KL penalty and an NLL term on positive examples, after NeMo-RL
// `ClippedPGLossFn`, and an entropy bonus as verl's `entropy_coeff`. Denominators are exact,
// without its epsilons; sampling_importance_ratio under sequence-level ratios is the mean that it
// stands for, which upstream makes S times too large.
//
// The class is a template on its formulas, so that a mutant replaces one of them, and on the type
// of the arithmetic for one token; sums over tokens are float64 in any case.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/loss/terms_kernels.h"
#include "harness/problem/batch/sharding.h"
#include "impls/objectives/clipped_pg/clipped_pg_draw.h"
#include "impls/objectives/clipped_pg/clipped_pg_terms.h"
#include "impls/objectives/clipped_pg/ratio/sequence_ratio.h"

namespace lossgrid {

/// Returns the truth: the forward formula on a tape, independent of the formulas above. `rows`
/// [T_pad] by row.
ObjectiveTruth clipped_pg_truth(const ClippedPgOptions& options, const PackedBatch& batch,
                                std::span<const TokenTruth> rows);

/// Returns loss and metrics from the sums of the three steps; `mean_weight`: of the sequences that
/// count, read under sequence-level importance ratios only.
ObjectiveResult clipped_pg_result(const ClippedPgOptions& options, const PackedBatch& batch,
                                  SequenceTable<const double> coefficients,
                                  ObjectiveTotals<const double> totals, double mean_weight);

template <class Formulas = ClippedPgFormulas, class Real = double>
class ClippedPgObjective final : public Objective {
 public:
  explicit ClippedPgObjective(const ClippedPgOptions& options)
      : Objective(options.needs()), options_(options), columns_(options) {}

  std::string_view kind() const override { return "clipped_pg"; }
  ObjectiveSizes sizes() const override {
    // The second moment is one of inputs, which every rank has, unless prev is approximated.
    const bool by_inputs = options_.selection() == Selection::second_moment &&
                           !Formulas::selects_by_proximal(options_);
    const bool has_numbers = options_.selects() && !by_inputs;
    return {columns_.sums, columns_.coefficients, ClippedPgTotals::kSums, ClippedPgTotals::kMaxima,
            has_numbers ? 1 : 0};
  }

  std::shared_ptr<const InputDraw> input_draw() const override {
    return std::make_shared<ClippedPgDraw>(options_);
  }

  /// Returns the sum of the importance weights of valid tokens, or of sequences that have some.
  double input_sum(const PackedBatch& batch) const override {
    const ShiftedBatch rows = shift_targets(batch);
    const std::vector<float> no_logprobs(rows.rows(), 0.0f);  // weights do not depend on them
    ObjectiveTokens tokens;
    tokens.logprobs = no_logprobs;
    tokens.valid = rows.valid;
    tokens.real = rows.real;
    tokens.sequence = rows.sequence;
    for (std::size_t k = 0; k < rows.inputs.size(); ++k) tokens.inputs[k] = rows.inputs[k];
    const Terms terms(options_, columns_, batch.denominators);
    return options_.weighs_sequences() ? sum_of_sequence_weights(terms, tokens, batch.sequences())
                                       : sum_of_token_weights(terms, tokens);
  }

  /// Returns the number of weights that a mean over the global batch counts.
  std::int64_t weights_of(const Denominators& counts) const {
    return options_.weighs_sequences() ? counts.trained_sequences : counts.valid_tokens;
  }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& batch,
                     SequenceTable<double> sums) const override {
    add_sequence_sums(terms(batch), tokens, sums);
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    if (columns_.coefficients == 0) return;
    const Real scale = weight_scale(batch);
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      const SequenceRow<Real> row{sums, coefficients, i};
      if (columns_.positive >= 0) row.set(columns_.positive, batch.rewards[i] > 0 ? 1 : 0);
      const auto tokens = static_cast<std::int64_t>(row.sum(columns_.tokens));
      const Real per_token = inverse_or_0<Real>(tokens);
      const Real share = Formulas::template share<Real>(
          options_.aggregation(), batch.denominators,
          batch.group_tokens.empty() ? tokens : batch.group_tokens[i]);
      row.set(columns_.share, share);
      const Weight weight = sequence_weight<Formulas>(options_, columns_, row);
      row.set(columns_.weight, weight.value);
      row.set(columns_.out_of_bounds, weight.is_out_of_bounds ? 1 : 0);
      const SequenceKeeps<Real> keeps =
          set_sequence_keeps<Formulas>(options_, columns_, row, per_token);
      set_policy_coefficients<Formulas>(options_, columns_, row, per_token);
      if (!options_.sequence_ratio()) continue;
      const Real weight_of_all =
          options_.weighs_sequences() ? weight_in_loss(options_, scale, weight) : Real(1);
      set_sequence_ratio<Formulas>(options_, columns_, row, per_token, share, weight_of_all, keeps);
    }
  }

  void selection_numbers(const ObjectiveTokens& tokens, std::span<double> numbers) const override {
    const std::span<const float> own = options_.selection() == Selection::top_entropy
                                           ? tokens.terms[RowTerm::entropy]
                                           : tokens.logprobs;
    for (std::size_t t = 0; t < own.size(); ++t) {
      if (tokens.valid[t] != 0) numbers[static_cast<std::size_t>(tokens.places[t])] = own[t];
    }
  }

  void select(const PackedBatch& batch, std::span<const double> numbers,
              std::span<std::uint8_t> selected) const override {
    SelectionTokens tokens = selection_tokens(batch, numbers);
    for (SelectionToken& token : tokens) token.prev = previous(token);
    select_tokens<Formulas>(options_, tokens, selected);
  }

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override {
    ClippedPgTotals sums;
    add_token_terms(terms(batch), tokens, coefficients, sums.sums.data(), sums.maxima.data(),
                    gradients);
    sums.add_to(totals);
  }

  /// Returns kernels for the right formulas in float64 only: others are not compiled for GPUs, and
  /// where tokens are selected the loops of the host serve.
  std::unique_ptr<ObjectiveKernels> kernels(Backend backend,
                                            const PackedBatch& batch) const override {
    if constexpr (std::is_same_v<Terms, ClippedPgTerms<>>) {
      if (!options_.selects()) return terms_kernels(backend, terms(batch));
    }
    return nullptr;
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    double mean_weight = 0;
    if (options_.weighs_sequences() && batch.denominators.valid_sequences > 0) {
      std::vector<double> weights;
      for (std::int64_t i = 0; i < batch.sequences(); ++i) {
        weights.push_back(coefficients.at(i, columns_.weight));
      }
      mean_weight = Formulas::mean_sequence_weight(weights, batch.sample_mask,
                                                   batch.denominators.valid_sequences);
    }
    return clipped_pg_result(options_, batch, coefficients, totals, mean_weight);
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return clipped_pg_truth(options_, batch, rows);
  }

 private:
  using Terms = ClippedPgTerms<Formulas, Real>;
  using Weight = ImportanceWeight<Real>;

  Terms terms(const PackedBatch& batch) const {
    return {options_, columns_, batch.denominators, weight_scale(batch)};
  }

  /// Returns the log-probability of the proximal policy, an input unless it is approximated.
  Real previous(const SelectionToken& token) const {
    if (!Formulas::selects_by_proximal(options_)) return static_cast<Real>(token.prev);
    const Real share = Formulas::proximal_share(static_cast<Real>(token.version),
                                                static_cast<Real>(*options_.current_version));
    return Formulas::proximal(options_.prox_logp_method, static_cast<Real>(token.number),
                              static_cast<Real>(token.generation), share);
  }

  /// Returns what makes the mean weight of the global batch 1.
  Real weight_scale(const PackedBatch& batch) const {
    if (!options_.rollout_is_batch_normalize) return 1;
    constexpr double kLeastMean = 1e-8;  // verl divides by none below
    const double mean = Formulas::batch_mean_weight(*this, batch);
    return mean > kLeastMean ? static_cast<Real>(1 / mean) : Real(1);
  }

  static double sum_of_token_weights(const Terms& terms, const ObjectiveTokens& tokens) {
    double sum = 0;
    for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
      if (tokens.valid[t] != 0)
        sum += terms.weight_of_token(tokens, static_cast<std::int64_t>(t)).value;
    }
    return sum;
  }

  double sum_of_sequence_weights(const Terms& terms, const ObjectiveTokens& tokens,
                                 std::int64_t sequences) const {
    std::vector<double> numbers(static_cast<std::size_t>(sequences * columns_.sums), 0.0);
    const SequenceTable<double> sums{numbers.data(), sequences, columns_.sums, columns_.sums};
    add_sequence_sums(terms, tokens, sums);
    double sum = 0;
    for (std::int64_t i = 0; i < sequences; ++i) {
      const SequenceRow<Real> row{sums, {}, i};
      if (row.sum(columns_.tokens) > 0) {
        sum += sequence_weight<Formulas>(options_, columns_, row).value;
      }
    }
    return sum;
  }

  ClippedPgOptions options_;
  ClippedPgColumns columns_;
};

template <class Formulas = ClippedPgFormulas, class Real = double>
std::unique_ptr<Objective> make_clipped_pg(const ObjectiveOptions& options) {
  return std::make_unique<ClippedPgObjective<Formulas, Real>>(ClippedPgOptions::from(options));
}

}  // namespace lossgrid
