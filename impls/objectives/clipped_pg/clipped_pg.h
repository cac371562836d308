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
    const Terms terms = this->terms(batch);
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      const auto sum = [&](int column) {
        return column >= 0 ? static_cast<Real>(sums.at(i, column)) : Real(0);
      };
      const auto set = [&](int column, Real value) {
        if (column >= 0) coefficients.at(i, column) = value;
      };
      if (columns_.positive >= 0) set(columns_.positive, batch.rewards[i] > 0 ? 1 : 0);
      const auto tokens = static_cast<std::int64_t>(sum(columns_.tokens));
      const Real per_token = inverse_or_0<Real>(tokens);
      const Real share = Formulas::template share<Real>(
          options_.aggregation(), batch.denominators,
          batch.group_tokens.empty() ? tokens : batch.group_tokens[i]);
      const Real per_kept = columns_.kept < 0
                                ? per_token
                                : inverse_or_0<Real>(static_cast<std::int64_t>(sum(columns_.kept)));
      const Weight weight = weight_of_sequence(terms, sums, i);
      const Real rejection = sum(columns_.rejection);
      const bool is_rejected =
          Formulas::rejects_sequence(rejection, rejection * per_kept, options_) ||
          sum(columns_.vetoes) > 0;
      const bool is_off_policy = options_.off_policy_mask_threshold &&
                                 sum(columns_.behaviour) * per_token >
                                     static_cast<Real>(*options_.off_policy_mask_threshold);
      const Real keep = is_rejected ? 0 : 1;
      const Real keep_negative = is_off_policy ? 0 : 1;
      set(columns_.keep, keep);
      set(columns_.keep_negative, keep_negative);
      set(columns_.share, share);
      set(columns_.weight, weight.value);
      set(columns_.out_of_bounds, weight.is_out_of_bounds ? 1 : 0);
      if (options_.is_geo_mean()) {
        const Real advantages =
            sum(columns_.positive_advantages) + sum(columns_.negative_advantages);
        set(columns_.ratio, Formulas::ratio(sum(columns_.log_ratio) * per_token));
        set(columns_.mean_advantage, advantages * per_token);
      }
      if (options_.is_vespo()) {
        const auto gate = [&](double k, double lambda) {
          const Real log = sum(columns_.log_ratio);
          return Formulas::vespo_gate(log, log * per_token, static_cast<Real>(k),
                                      static_cast<Real>(lambda));
        };
        set(columns_.gate, gate(options_.vespo_k_pos, options_.vespo_lambda_pos));
        set(columns_.negative_gate, gate(options_.vespo_k_neg, options_.vespo_lambda_neg));
      }
      if (!options_.sequence_ratio()) continue;

      const Pair log = Formulas::bounded_log(sum(columns_.log_ratio) * per_token, options_);
      const Real rho = Formulas::ratio(log.value);
      const Real weight_of_all = options_.weighs_sequences() ? terms.used(weight) : Real(1);
      const Pair clipped = Formulas::clipped(rho, options_);
      const auto slope = [&](int advantages) {
        return surrogate<Formulas>(sum(advantages), rho, clipped, options_).slope;
      };
      // Off-policy masking drops the advantages that it may drop.
      const auto kept_slope = [&](int advantages, Real sign) {
        return (Formulas::is_maskable(sign) ? keep * keep_negative : keep) * slope(advantages);
      };
      const Real by_ratio = kept_slope(columns_.positive_advantages, 1) +
                            kept_slope(columns_.negative_advantages, -1);
      set(columns_.ratio, rho);
      set(columns_.ratio_slope, rho * log.slope);
      set(columns_.ratio_gradient, share * weight_of_all * by_ratio * rho * log.slope * per_token);
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
  using Pair = typename Terms::Pair;
  using Weight = typename Terms::Weight;

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
      if (tokens.valid[t] != 0) sum += terms.own_weight(tokens, static_cast<std::int64_t>(t)).value;
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
      if (sums.at(i, columns_.tokens) > 0) sum += weight_of_sequence(terms, sums, i).value;
    }
    return sum;
  }

  /// Returns the weight that the tokens of sequence i share, by its sums.
  template <typename Number>
  Weight weight_of_sequence(const Terms& terms, SequenceTable<Number> sums, std::int64_t i) const {
    const auto sum = [&](int column) {
      return column >= 0 ? static_cast<Real>(sums.at(i, column)) : Real(0);
    };
    const Real count = sum(columns_.kept >= 0 ? columns_.kept : columns_.tokens);
    const Real log_weight = sum(columns_.log_weight);
    return sequence_weight(terms, log_weight,
                           log_weight * inverse_or_0<Real>(static_cast<std::int64_t>(count)));
  }

  Weight sequence_weight(const Terms& terms, Real log_weight, Real mean_log_weight) const {
    if (options_.rollout_is == WeightLevel::geometric) log_weight = mean_log_weight;
    if (!options_.masks_sequences()) return terms.bounded(Formulas::finite_exp(log_weight));
    const bool is_masked = Formulas::out_of_bounds(std::exp(mean_log_weight), options_);
    return {is_masked ? Real(0) : Real(1), is_masked};
  }

  ClippedPgOptions options_;
  ClippedPgColumns columns_;
};

template <class Formulas = ClippedPgFormulas, class Real = double>
std::unique_ptr<Objective> make_clipped_pg(const ObjectiveOptions& options) {
  return std::make_unique<ClippedPgObjective<Formulas, Real>>(ClippedPgOptions::from(options));
}

}  // namespace lossgrid
