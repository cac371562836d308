// SPDX-License-Identifier: Apache-2.0
// ClippedPgTerms: the terms of one token (harness/loss/terms_kernels.h) of `clipped_pg`, as the
// order of the steps of its parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"
#include "impls/objectives/clipped_pg/clipped_pg_columns.h"
#include "impls/objectives/clipped_pg/clipped_pg_formulas.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/clipped_pg_totals.h"

namespace lossgrid {

template <class Formulas = ClippedPgFormulas, class Real = double>
class ClippedPgTerms {
 public:
  static constexpr int kSequenceSums = 9;
  static constexpr int kSums = ClippedPgTotals::kSums;
  static constexpr int kMaxima = ClippedPgTotals::kMaxima;
  static constexpr bool kHasGradient = true;

  ClippedPgTerms(const ClippedPgOptions& options, const ClippedPgColumns& columns,
                 const Denominators& denominators, Real weight_scale = 1)
      : options_(options),
        columns_(columns),
        weight_scale_(weight_scale),
        share_(Formulas::template share<Real>(options.aggregation(), denominators, 0)),
        token_share_(inverse_or_0<Real>(denominators.valid_tokens)),
        nll_share_(inverse_or_0<Real>(denominators.positive_tokens)) {}

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& tokens, std::int64_t t,
                                       double* sums) const {
    const PolicyToken<Real> token = read(tokens, t);
    const auto add = [&](int column, Real term) {
      if (column >= 0) sums[column] += term;
    };
    add(columns_.tokens, 1);
    if (columns_.log_ratio >= 0) {
      add(columns_.log_ratio, log_ratio_in_sum<Formulas>(options_, token).value);
    }
    const Real log_weight = token.log_weight();
    const bool is_kept = !is_rejected_alone<Formulas>(options_, log_weight);
    const bool has_weight = takes_part<Formulas>(options_, log_weight);
    const Real factor =
        is_kept ? own_factor<Formulas>(options_, weight_scale_, log_weight) : Real(0);
    add(columns_.positive_advantages, factor * std::max(token.advantage, Real(0)));
    add(columns_.negative_advantages, factor * std::min(token.advantage, Real(0)));
    if (has_weight) add(columns_.behaviour, token.q - token.x);
    if (columns_.vetoes >= 0 && has_weight && Formulas::may_veto(is_kept, options_)) {
      add(columns_.vetoes, Formulas::vetoes(log_weight, options_) ? 1 : 0);
    }
    if (options_.token_masks_first && !is_kept) return;
    add(columns_.kept, 1);
    add(columns_.log_weight,
        options_.masks_sequences() ? Formulas::log_weight_in_mask(log_weight) : log_weight);
    if (columns_.rejection >= 0 && has_weight) {
      add(columns_.rejection, Formulas::rejection_term(log_weight, options_));
    }
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> coefficients, double* sums,
                                          double* maxima) const {
    using T = ClippedPgTotals;
    if (tokens.valid[t] == 0) return {};
    const PolicyToken<Real> token = read(tokens, t);
    const SequenceCoefficients<Real> sequence{coefficients, tokens.sequence[t]};
    const Real share = sequence.at(columns_.share, share_);
    const TokenRatio<Real> ratio = token_ratio<Formulas>(options_, columns_, token, sequence);
    const ImportanceWeight<Real> weight =
        token_weight<Formulas>(options_, columns_, token, sequence);

    const Real keep = kept_by_rejection<Formulas>(options_, columns_, token, sequence);
    const Real factor =
        kept_by_selection(options_, token, keep) * weight_in_loss(options_, weight_scale_, weight);
    const Slope<Real> policy =
        policy_term<Formulas>(options_, columns_, token, ratio, sequence, factor);
    sums[T::kActor] += share * policy.value;
    Real gradient = share * policy.slope;
    if (columns_.ratio_gradient >= 0) gradient += sequence.at(columns_.ratio_gradient);
    const auto beta = static_cast<Real>(options_.kl_penalty());
    if (beta != 0) {
      const Slope<Real> kl = kl_penalty<Formulas>(token.x, token.p, token.q, token.f, options_);
      const Real kl_share = Formulas::kl_share(share, token_share_);
      sums[T::kKl] += kl_share * kl.value;
      gradient += beta * kl_share * kl.slope;
    }
    if (columns_.positive >= 0 && sequence.at(columns_.positive) > 0) {
      const auto nll_weight = static_cast<Real>(options_.positive_example_nll_weight);
      sums[T::kPositiveNll] -= nll_share_ * token.x;
      gradient -= nll_weight * nll_share_;
    }
    sums[T::kTokens] += 1;
    sums[T::kRejected] += 1 - keep;
    sums[T::kSelected] += token.is_selected ? 1 : 0;
    add_ratio_metrics(ratio, sums, maxima);
    add_policy_distances<Formulas>(options_, token, sums);
    add_weight_metrics(weight, sums);
    TokenGradient by_number{.logprob = as_gradient(gradient)};
    if (options_.entropy_coefficient != 0) {
      const auto coefficient = static_cast<Real>(options_.entropy_coefficient);
      sums[T::kEntropy] += share * static_cast<Real>(tokens.terms[RowTerm::entropy][t]);
      by_number.terms[RowTerm::entropy] =
          static_cast<float>(Formulas::entropy_slope(coefficient) * share);
    }
    return by_number;
  }

  /// Returns the importance weight of a token, unless its sequence has one.
  LOSSGRID_KERNEL ImportanceWeight<Real> weight_of_token(const ObjectiveTokens& tokens,
                                                         std::int64_t t) const {
    return own_weight<Formulas>(options_, read(tokens, t).log_weight());
  }

 private:
  LOSSGRID_KERNEL PolicyToken<Real> read(const ObjectiveTokens& tokens, std::int64_t t) const {
    const auto input = [&](TokenInput which) {
      const std::span<const float> values = tokens.input(which);
      return values.empty() ? Real(0) : static_cast<Real>(values[t]);
    };
    const auto x = static_cast<Real>(tokens.logprobs[t]);
    PolicyToken<Real> token{
        .x = x,
        .p = options_.force_on_policy_ratio ? x : input(TokenInput::prev_logprobs),
        .q = input(TokenInput::generation_logprobs),
        .f = input(TokenInput::reference_policy_logprobs),
        .advantage = input(TokenInput::advantages),
        .is_selected = tokens.is_selected(t)};
    if (options_.approximates_proximal()) {
      approximate_proximal<Formulas>(options_, input(TokenInput::versions), token);
    }
    token.anchor = ratio_anchor<Formulas>(options_, token);
    return token;
  }

  ClippedPgOptions options_;
  ClippedPgColumns columns_;
  Real weight_scale_;  // of importance weights in the loss
  Real share_;         // of a token in the loss, unless it stands in the coefficients
  Real token_share_;   // of a token in a mean over tokens
  Real nll_share_;     // of a token of a positive example in its term
};

}  // namespace lossgrid
