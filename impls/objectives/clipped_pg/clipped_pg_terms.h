// SPDX-License-Identifier: Apache-2.0
// ClippedPgTerms: the terms of one token (harness/loss/terms_kernels.h) of `clipped_pg`.
#pragma once

#include <array>

#include "harness/loss/objective_tokens.h"
#include "impls/objectives/clipped_pg/clipped_pg_formulas.h"

namespace lossgrid {

/// Columns of the tables by sequence; -1 where the options need none.
struct ClippedPgColumns {
  explicit ClippedPgColumns(const ClippedPgOptions& options);

  // Sums over the valid tokens of a sequence.
  int tokens = -1;
  int log_ratio = -1;            // x - prev, clipped in geo_mean
  int positive_advantages = -1;  // the loss is linear in advantages of one sign
  int negative_advantages = -1;
  int log_weight = -1;  // prev - generation
  int kept = -1;        // tokens that are not rejected one by one
  int rejection = -1;   // numbers by which the sequence is rejected
  int vetoes = -1;      // tokens that take their sequence with them
  int behaviour = -1;   // generation - x
  int sums = 0;

  // Coefficients.
  int share = -1;           // of a token in the loss, where it differs by sequence
  int ratio = -1;           // the one ratio of the sequence
  int ratio_slope = -1;     // its slope by the token's own logprob
  int ratio_gradient = -1;  // d (policy loss) / d logprob of every token, by that ratio
  int mean_advantage = -1;  // of geo_mean
  int gate = -1;            // of vespo, for tokens with advantages of at least 0
  int negative_gate = -1;   // for others
  int weight = -1;          // importance weight; seq-mask-tis: 1 kept, 0 masked
  int out_of_bounds = -1;   // of that weight: 1, else 0
  int positive = -1;        // reward above 0: 1, else 0
  int keep = -1;            // policy terms of its tokens: 1 kept, 0 dropped
  int keep_negative = -1;   // the same, of tokens that off-policy masking may drop
  int coefficients = 0;
};

/// Totals of step 3 over valid tokens: sums and maxima.
struct ClippedPgTotals {
  enum Sum {
    kTokens,
    kActor,  // with the tokens' shares in the loss, as kKl
    kKl,
    kPositiveNll,
    kRatio,
    kRatioClamped,
    kMultProbError,
    kGenKl,
    kPolicyKl,
    kJsDivergence,
    kApproxEntropy,
    kEntropy,  // with the tokens' shares in the loss
    kWeight,
    kOutOfBounds,
    kRejected,
    kSelected,
    kSums,
  };
  enum Maximum { kMaxRatio, kMaxMinusRatio, kMaxRatioClamped, kMaxMinusRatioClamped, kMaxima };

  std::array<double, kSums> sums{};
  std::array<double, kMaxima> maxima{-kInfinity, -kInfinity, -kInfinity, -kInfinity};

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Adds these to `totals` of the same sizes.
  void add_to(ObjectiveTotals<double> totals) const;
};

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
    const Token token = read(tokens, t);
    const auto add = [&](int column, Real term) {
      if (column >= 0) sums[column] += term;
    };
    add(columns_.tokens, 1);
    if (columns_.log_ratio >= 0) add(columns_.log_ratio, log_in_sum(token).value);
    const Real log_weight = token.p - token.q;
    const bool is_kept = !is_rejected_alone(log_weight);
    const bool has_weight = takes_part(log_weight);
    const Real factor = is_kept ? own_factor(log_weight) : Real(0);
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
    if (tokens.valid[t] == 0) return {};
    const auto beta = static_cast<Real>(options_.kl_penalty());
    const auto nll_weight = static_cast<Real>(options_.positive_example_nll_weight);
    const Token token = read(tokens, t);
    const auto of_sequence = [&](int column) {
      return static_cast<Real>(coefficients.at(token.sequence, column));
    };
    const Real share = columns_.share >= 0 ? of_sequence(columns_.share) : share_;
    const Ratio ratio = this->ratio(token, coefficients);
    const Weight weight = token_weight(token, coefficients);

    const Real keep = kept(token, coefficients);
    const Real counted = token.is_selected && !options_.is_kl_cov() ? Real(0) : keep;
    const Pair policy = actor(token, ratio, counted * used(weight), coefficients);
    sums[ClippedPgTotals::kActor] += share * policy.value;
    Real gradient = share * policy.slope;
    if (columns_.ratio_gradient >= 0) gradient += of_sequence(columns_.ratio_gradient);
    if (beta != 0) {
      const Pair kl = kl_penalty<Formulas>(token.x, token.p, token.q, token.f, options_);
      const Real kl_share = Formulas::kl_share(share, token_share_);
      sums[ClippedPgTotals::kKl] += kl_share * kl.value;
      gradient += beta * kl_share * kl.slope;
    }
    if (columns_.positive >= 0 && of_sequence(columns_.positive) > 0) {
      sums[ClippedPgTotals::kPositiveNll] -= nll_share_ * token.x;
      gradient -= nll_weight * nll_share_;
    }
    sums[ClippedPgTotals::kRejected] += 1 - keep;
    sums[ClippedPgTotals::kSelected] += token.is_selected ? 1 : 0;
    add_metrics(token, ratio, weight, sums, maxima);
    TokenGradient by_number{.logprob = as_gradient(gradient)};
    if (options_.entropy_coefficient != 0) {
      const auto coefficient = static_cast<Real>(options_.entropy_coefficient);
      sums[ClippedPgTotals::kEntropy] +=
          share * static_cast<Real>(tokens.terms[RowTerm::entropy][t]);
      by_number.terms[RowTerm::entropy] =
          static_cast<float>(Formulas::entropy_slope(coefficient) * share);
    }
    return by_number;
  }

  using Pair = Slope<Real>;

  struct Weight {
    Real value;
    bool is_out_of_bounds;
  };

  /// An importance weight as it counts.
  LOSSGRID_KERNEL Weight bounded(Real weight) const {
    return {Formulas::truncated(weight, options_),
            options_.truncates() && Formulas::out_of_bounds(weight, options_)};
  }

  /// The importance weight of a token, unless its sequence has one.
  LOSSGRID_KERNEL Weight own_weight(const ObjectiveTokens& tokens, std::int64_t t) const {
    const Token token = read(tokens, t);
    return bounded(Formulas::finite_exp(token.p - token.q));
  }

  /// Its factor in the loss.
  LOSSGRID_KERNEL Real used(const Weight& weight) const {
    return options_.use_importance_sampling_correction ? weight_scale_ * weight.value : Real(1);
  }

 private:
  /// Log-probabilities of one token under the current policy, the previous one, the one that
  /// generated it and the reference; what the options do not need is 0.
  struct Token {
    std::int64_t sequence;
    Real x, p, q, f;
    Real advantage;
    bool is_selected = true;
    Real share = 0;   // of x in p
    Real anchor = 0;  // that the ratio is taken to
  };

  /// The ratio that multiplies the advantage, slope by x, and the clipped one, slope by the ratio.
  struct Ratio {
    Pair free;
    Pair clipped;
  };

  LOSSGRID_KERNEL Token read(const ObjectiveTokens& tokens, std::int64_t t) const {
    const auto input = [&](TokenInput which) {
      const std::span<const float> values = tokens.input(which);
      return values.empty() ? Real(0) : static_cast<Real>(values[t]);
    };
    const auto x = static_cast<Real>(tokens.logprobs[t]);
    Token token{.sequence = tokens.sequence[t],
                .x = x,
                .p = options_.force_on_policy_ratio ? x : input(TokenInput::prev_logprobs),
                .q = input(TokenInput::generation_logprobs),
                .f = input(TokenInput::reference_policy_logprobs),
                .advantage = input(TokenInput::advantages),
                .is_selected = tokens.is_selected(t)};
    if (options_.approximates_proximal()) {
      token.share = Formulas::proximal_share(input(TokenInput::versions),
                                             static_cast<Real>(*options_.current_version));
      token.p = Formulas::proximal(options_.prox_logp_method, x, token.q, token.share);
    }
    token.anchor =
        options_.is_binary_dppo() ? Formulas::binary_dppo_anchor(token.p, token.q) : token.p;
    return token;
  }

  LOSSGRID_KERNEL Pair log_ratio(const Token& token) const {
    return Formulas::log_ratio(token.x, token.anchor, token.share);
  }

  /// The logarithm of a token's ratio in the sum of its sequence; slope by x.
  LOSSGRID_KERNEL Pair log_in_sum(const Token& token) const {
    const Pair log = log_ratio(token);
    if (options_.sequence_ratio()) return log;
    const Pair bounded = Formulas::bounded_log(log.value, options_);
    if (!options_.is_geo_mean()) return {bounded.value, bounded.slope * log.slope};
    const Pair clipped = Formulas::one_sided_log(bounded.value, token.advantage, options_);
    return {clipped.value, clipped.slope * bounded.slope * log.slope};
  }

  LOSSGRID_KERNEL Ratio ratio(const Token& token, SequenceTable<const double> coefficients) const {
    if (options_.force_on_policy_ratio) return {{1, 1}, {1, 1}};
    if (options_.disable_ppo_ratio) return {{token.x, 1}, {token.x, 1}};
    if (options_.is_geo_mean()) {
      const auto rho = static_cast<Real>(coefficients.at(token.sequence, columns_.ratio));
      return {{rho, rho * log_in_sum(token).slope}, {rho, 1}};
    }
    if (options_.sequence_ratio()) {
      const auto of_sequence = [&](int column) {
        return static_cast<Real>(coefficients.at(token.sequence, column));
      };
      const Real rho = of_sequence(columns_.ratio);
      // Unless the slope is the token's own, the gradient stands in the coefficients.
      const Real slope = columns_.ratio_slope >= 0 ? of_sequence(columns_.ratio_slope) : Real(0);
      return {{rho, slope}, Formulas::clipped(rho, options_)};
    }
    const Pair log = log_ratio(token);
    const Pair bounded = Formulas::bounded_log(log.value, options_);
    const Real rho = Formulas::ratio(bounded.value);
    return {{rho, rho * bounded.slope * log.slope}, Formulas::clipped(rho, options_)};
  }

  LOSSGRID_KERNEL Weight token_weight(const Token& token,
                                      SequenceTable<const double> coefficients) const {
    const auto of_sequence = [&] {
      return static_cast<Real>(coefficients.at(token.sequence, columns_.weight));
    };
    if (options_.weighs_sequences()) return {of_sequence(), false};
    const Real weight = Formulas::finite_exp(token.p - token.q);
    if (options_.masks_sequences()) return {weight * of_sequence(), false};
    return bounded(weight);
  }

  /// True for a log weight that rules of rejection read: of a token that lacks one none does.
  LOSSGRID_KERNEL bool takes_part(Real log_weight) const {
    return !options_.zero_weights_nonfinite() || Formulas::has_part(log_weight);
  }

  LOSSGRID_KERNEL bool is_rejected_alone(Real log_weight) const {
    if (options_.rejection_level != RejectionLevel::token || !takes_part(log_weight)) return false;
    const Real number = Formulas::rejection_number(log_weight, options_.rejection_statistic);
    return Formulas::is_rejected(number, options_);
  }

  /// The weight of a token's advantage in the sums of its sequence, unless that has one weight.
  LOSSGRID_KERNEL Real own_factor(Real log_weight) const {
    if (options_.weighs_sequences()) return 1;
    return used(bounded(Formulas::finite_exp(log_weight)));
  }

  /// 1 for a token that keeps its policy term, else 0.
  LOSSGRID_KERNEL Real kept(const Token& token, SequenceTable<const double> coefficients) const {
    const auto of_sequence = [&](int column) {
      return column >= 0 ? static_cast<Real>(coefficients.at(token.sequence, column)) : Real(1);
    };
    if (is_rejected_alone(token.p - token.q)) return 0;
    const Real keep = of_sequence(columns_.keep);
    return Formulas::is_maskable(token.advantage) ? keep * of_sequence(columns_.keep_negative)
                                                  : keep;
  }

  LOSSGRID_KERNEL Pair actor(const Token& token, const Ratio& ratio, Real factor,
                             SequenceTable<const double> coefficients) const {
    const auto of_sequence = [&](int column) {
      return static_cast<Real>(coefficients.at(token.sequence, column));
    };
    const auto weighted = [&](Real weight) {
      const Real slope = -token.advantage * weight * factor;
      return Pair{slope * token.x, slope};
    };
    if (options_.use_cispo) return weighted(ratio.clipped.value);
    if (options_.is_vespo()) {
      return weighted(of_sequence(token.advantage >= 0 ? columns_.gate : columns_.negative_gate));
    }
    if (options_.is_dppo()) {
      const bool has_diverged = Formulas::has_diverged(token.advantage, token.x, token.p, options_);
      return weighted(has_diverged ? Real(0) : Formulas::dppo_weight(ratio.free.value, options_));
    }
    if (options_.is_binary_dppo()) {
      const bool has_diverged =
          Formulas::has_diverged(token.advantage, token.x, token.anchor, options_);
      const Real weight = has_diverged ? Real(0) : -token.advantage * factor;
      return {weight * ratio.free.value, weight * ratio.free.slope};
    }
    if (options_.policy_loss == PolicyLoss::dro) {
      const Pair loss = Formulas::dro(token.advantage, token.x, token.p, options_);
      return {factor * loss.value, factor * loss.slope};
    }
    if (options_.is_geo_mean()) {
      const Real advantage =
          Formulas::geo_mean_advantage(token.advantage, of_sequence(columns_.mean_advantage));
      return {factor * -advantage * ratio.free.value, factor * -advantage * ratio.free.slope};
    }
    const Pair loss =
        surrogate<Formulas>(token.advantage, ratio.free.value, ratio.clipped, options_);
    Pair policy{factor * loss.value, factor * loss.slope * ratio.free.slope};
    if (token.is_selected && options_.is_kl_cov()) {
      const Pair penalty = Formulas::kl_cov_penalty(token.x, token.p, options_);
      policy.value += factor * penalty.value;
      policy.slope += factor * penalty.slope;
    }
    return policy;
  }

  LOSSGRID_KERNEL void add_metrics(const Token& token, const Ratio& ratio, const Weight& weight,
                                   double* sums, double* maxima) const {
    using T = ClippedPgTotals;
    const KlType type = options_.reference_policy_kl_type;
    const Real gap = token.p - token.q;
    sums[T::kTokens] += 1;
    sums[T::kRatio] += ratio.free.value;
    sums[T::kRatioClamped] += ratio.clipped.value;
    if (!options_.zero_weights_nonfinite() || Formulas::is_finite(token.q)) {
      sums[T::kMultProbError] += std::exp(std::abs(gap));
      sums[T::kGenKl] += Formulas::kl(type, gap).value;
      sums[T::kPolicyKl] += Formulas::kl(type, -gap).value;
      sums[T::kJsDivergence] += js_divergence(token.p, token.q);
      sums[T::kApproxEntropy] -= std::exp(token.x - token.q) * token.x;
    }
    sums[T::kWeight] += weight.value;
    sums[T::kOutOfBounds] += weight.is_out_of_bounds ? 1 : 0;
    raise_to(maxima[T::kMaxRatio], ratio.free.value);
    raise_to(maxima[T::kMaxMinusRatio], -ratio.free.value);
    raise_to(maxima[T::kMaxRatioClamped], ratio.clipped.value);
    raise_to(maxima[T::kMaxMinusRatioClamped], -ratio.clipped.value);
  }

  ClippedPgOptions options_;
  ClippedPgColumns columns_;
  Real weight_scale_;  // of importance weights in the loss
  Real share_;         // of a token in the loss, unless it stands in the coefficients
  Real token_share_;   // of a token in a mean over tokens
  Real nll_share_;     // of a token of a positive example in its term
};

}  // namespace lossgrid
