// SPDX-License-Identifier: Apache-2.0
// `clipped_pg`: the clipped policy-gradient loss of PPO, GRPO, GSPO, CISPO and REINFORCE with
// importance sampling correction, a KL penalty and an NLL term on positive examples, after NeMo-RL
// `ClippedPGLossFn`. Denominators are exact, without its epsilons; sampling_importance_ratio under
// sequence-level ratios is the mean that it stands for, which upstream makes S times too large.
//
// The class is a template on its formulas, so that a mutant replaces one of them, and on the type
// of the arithmetic for one token; sums over tokens are float64 in any case.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "impls/objectives/clipped_pg_formulas.h"

namespace lossgrid {

/// The forward formula on a tape, written apart from the formulas above. `rows` [T_pad] by row.
ObjectiveTruth clipped_pg_truth(const ClippedPgOptions& options, const PackedBatch& batch,
                                std::span<const TokenTruth> rows);

/// Columns of the tables by sequence; -1 where the options need none.
struct ClippedPgColumns {
  explicit ClippedPgColumns(const ClippedPgOptions& options);

  // Sums over the valid tokens of a sequence.
  int tokens = -1;
  int log_ratio = -1;            // x - prev
  int positive_advantages = -1;  // the loss is linear in advantages of one sign
  int negative_advantages = -1;
  int log_weight = -1;  // prev - generation
  int sums = 0;

  // Coefficients.
  int share = -1;           // of a token in the mean over sequences of token means
  int ratio = -1;           // the one ratio of the sequence
  int ratio_gradient = -1;  // d (policy loss) / d logprob of every token, by that ratio
  int weight = -1;          // importance weight; seq-mask-tis: 1 kept, 0 masked
  int out_of_bounds = -1;   // of that weight: 1, else 0
  int coefficients = 0;
};

/// What step 3 adds up over valid tokens, and what it takes the largest of.
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
    kEntropy,
    kWeight,
    kOutOfBounds,
    kSums,
  };
  enum Maximum { kMaxRatio, kMaxMinusRatio, kMaxRatioClamped, kMaxMinusRatioClamped, kMaxima };

  std::array<double, kSums> sums{};
  std::array<double, kMaxima> maxima{-kInfinity, -kInfinity, -kInfinity, -kInfinity};

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// A NaN stays.
  void raise(Maximum which, double value) {
    if (value > maxima[which] || std::isnan(value)) maxima[which] = value;
  }

  /// Adds these to `totals` of the same sizes.
  void add_to(ObjectiveTotals<double> totals) const;
};

/// Loss and metrics from what the three steps left behind; `mean_weight`: of the sequences that
/// count, read under sequence-level importance ratios only.
ObjectiveResult clipped_pg_result(const ClippedPgOptions& options, const PackedBatch& batch,
                                  SequenceTable<const double> coefficients,
                                  ObjectiveTotals<const double> totals, double mean_weight);

template <class Formulas = ClippedPgFormulas, class Real = double>
class ClippedPgObjective final : public Objective {
 public:
  explicit ClippedPgObjective(const ClippedPgOptions& options)
      : options_(options), columns_(options) {}

  std::string_view kind() const override { return "clipped_pg"; }
  ObjectiveNeeds needs() const override { return options_.needs(); }
  ObjectiveSizes sizes() const override {
    return {columns_.sums, columns_.coefficients, ClippedPgTotals::kSums, ClippedPgTotals::kMaxima};
  }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch& /*batch*/,
                     SequenceTable<double> sums) const override {
    if (columns_.sums == 0) return;
    for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
      if (tokens.valid[t] == 0) continue;
      const Token token = read(tokens, t);
      const auto add = [&](int column, Real term) {
        if (column >= 0) sums.at(token.sequence, column) += term;
      };
      add(columns_.tokens, 1);
      add(columns_.log_ratio, token.x - token.p);
      add(columns_.positive_advantages, std::max(token.advantage, Real(0)));
      add(columns_.negative_advantages, std::min(token.advantage, Real(0)));
      add(columns_.log_weight, token.p - token.q);
    }
  }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    if (columns_.coefficients == 0) return;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      const auto sum = [&](int column) {
        return column >= 0 ? static_cast<Real>(sums.at(i, column)) : Real(0);
      };
      const auto set = [&](int column, Real value) {
        if (column >= 0) coefficients.at(i, column) = value;
      };
      const Real per_token = inverse(static_cast<std::int64_t>(sums.at(i, columns_.tokens)));
      const Real share = per_token * inverse(batch.denominators.valid_sequences);
      const Real log_weight = sum(columns_.log_weight);
      const Weight weight = sequence_weight(log_weight, log_weight * per_token);
      set(columns_.share, share);
      set(columns_.weight, weight.value);
      set(columns_.out_of_bounds, weight.is_out_of_bounds ? 1 : 0);
      if (!options_.sequence_ratio()) continue;

      const Real rho = std::exp(sum(columns_.log_ratio) * per_token);
      const Pair clipped = Formulas::clipped(rho, options_);
      const auto slope = [&](int advantages) {
        return surrogate<Formulas>(sum(advantages), rho, clipped, options_).slope;
      };
      const Real by_ratio =
          slope(columns_.positive_advantages) + slope(columns_.negative_advantages);
      set(columns_.ratio, rho);
      set(columns_.ratio_gradient, share * used(weight) * by_ratio * rho * per_token);
    }
  }

  void token_terms(const ObjectiveTokens& tokens, const PackedBatch& batch,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   std::span<float> grad_logprobs) const override {
    const auto beta = static_cast<Real>(options_.kl_penalty());
    const auto nll_weight = static_cast<Real>(options_.positive_example_nll_weight);
    const Real nll_share = inverse(batch.denominators.positive_tokens);
    Real share = inverse(batch.denominators.valid_tokens);
    ClippedPgTotals sums;
    for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
      if (tokens.valid[t] == 0) continue;
      const Token token = read(tokens, t);
      const auto of_sequence = [&](int column) {
        return static_cast<Real>(coefficients.at(token.sequence, column));
      };
      if (columns_.share >= 0) share = of_sequence(columns_.share);
      const Ratio ratio = this->ratio(token, coefficients);
      const Weight weight = token_weight(token, coefficients);

      const Pair policy = actor(token, ratio, weight);
      sums.sums[ClippedPgTotals::kActor] += share * policy.value;
      Real gradient = share * policy.slope;
      if (columns_.ratio_gradient >= 0) gradient += of_sequence(columns_.ratio_gradient);
      if (beta != 0) {
        const Pair kl = kl_penalty<Formulas>(token.x, token.q, token.f, options_);
        sums.sums[ClippedPgTotals::kKl] += share * kl.value;
        gradient += beta * share * kl.slope;
      }
      if (nll_weight > 0 && batch.rewards[token.sequence] > 0) {
        sums.sums[ClippedPgTotals::kPositiveNll] -= nll_share * token.x;
        gradient -= nll_weight * nll_share;
      }
      grad_logprobs[t] += static_cast<float>(gradient);
      add_metrics(token, ratio, weight, sums);
    }
    sums.add_to(totals);
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> coefficients,
                         ObjectiveTotals<const double> totals) const override {
    double mean_weight = 0;
    if (options_.sequence_level_importance_ratios && batch.denominators.valid_sequences > 0) {
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
  using Pair = Slope<Real>;

  /// Log-probabilities of one token under the current policy, the previous one, the one that
  /// generated it and the reference; what the options do not need is 0.
  struct Token {
    std::int64_t sequence;
    Real x, p, q, f;
    Real advantage;
  };

  /// The ratio that multiplies the advantage, slope by x, and the clipped one, slope by the ratio.
  struct Ratio {
    Pair free;
    Pair clipped;
  };

  struct Weight {
    Real value;
    bool is_out_of_bounds;
  };

  static Real inverse(std::int64_t count) { return count > 0 ? 1 / static_cast<Real>(count) : 0; }

  Real used(const Weight& weight) const {
    return options_.use_importance_sampling_correction ? weight.value : Real(1);
  }

  Token read(const ObjectiveTokens& tokens, std::size_t t) const {
    const auto input = [&](TokenInput which) {
      const std::span<const float> values = tokens.input(which);
      return values.empty() ? Real(0) : static_cast<Real>(values[t]);
    };
    const auto x = static_cast<Real>(tokens.logprobs[t]);
    return {.sequence = tokens.sequence[t],
            .x = x,
            .p = options_.force_on_policy_ratio ? x : input(TokenInput::prev_logprobs),
            .q = input(TokenInput::generation_logprobs),
            .f = input(TokenInput::reference_policy_logprobs),
            .advantage = input(TokenInput::advantages)};
  }

  Ratio ratio(const Token& token, SequenceTable<const double> coefficients) const {
    if (options_.force_on_policy_ratio) return {{1, 1}, {1, 1}};
    if (options_.disable_ppo_ratio) return {{token.x, 1}, {token.x, 1}};
    if (options_.sequence_ratio()) {
      // Its gradient is not the token's own: it stands in the coefficients.
      const auto rho = static_cast<Real>(coefficients.at(token.sequence, columns_.ratio));
      return {{rho, 0}, Formulas::clipped(rho, options_)};
    }
    const Real rho = std::exp(token.x - token.p);
    return {{rho, rho}, Formulas::clipped(rho, options_)};
  }

  Weight bounded(Real weight) const {
    return {Formulas::truncated(weight, options_),
            options_.truncates() && Formulas::out_of_bounds(weight, options_)};
  }

  Weight token_weight(const Token& token, SequenceTable<const double> coefficients) const {
    const auto of_sequence = [&] {
      return static_cast<Real>(coefficients.at(token.sequence, columns_.weight));
    };
    if (options_.sequence_level_importance_ratios) return {of_sequence(), false};
    const Real weight = Formulas::finite_exp(token.p - token.q);
    if (options_.masks_sequences()) return {weight * of_sequence(), false};
    return bounded(weight);
  }

  Weight sequence_weight(Real log_weight, Real mean_log_weight) const {
    if (!options_.masks_sequences()) return bounded(Formulas::finite_exp(log_weight));
    const bool is_masked = Formulas::out_of_bounds(std::exp(mean_log_weight), options_);
    return {is_masked ? Real(0) : Real(1), is_masked};
  }

  Pair actor(const Token& token, const Ratio& ratio, const Weight& weight) const {
    const Real factor = used(weight);
    if (options_.use_cispo) {
      const Real slope = -token.advantage * ratio.clipped.value * factor;
      return {slope * token.x, slope};
    }
    const Pair loss =
        surrogate<Formulas>(token.advantage, ratio.free.value, ratio.clipped, options_);
    return {factor * loss.value, factor * loss.slope * ratio.free.slope};
  }

  void add_metrics(const Token& token, const Ratio& ratio, const Weight& weight,
                   ClippedPgTotals& totals) const {
    using T = ClippedPgTotals;
    const KlType type = options_.reference_policy_kl_type;
    const Real gap = token.p - token.q;
    auto& sums = totals.sums;
    sums[T::kTokens] += 1;
    sums[T::kRatio] += ratio.free.value;
    sums[T::kRatioClamped] += ratio.clipped.value;
    sums[T::kMultProbError] += std::exp(std::abs(gap));
    sums[T::kGenKl] += Formulas::kl(type, gap).value;
    sums[T::kPolicyKl] += Formulas::kl(type, -gap).value;
    sums[T::kJsDivergence] += js_divergence(token.p, token.q);
    sums[T::kEntropy] -= std::exp(token.x - token.q) * token.x;
    sums[T::kWeight] += weight.value;
    sums[T::kOutOfBounds] += weight.is_out_of_bounds ? 1 : 0;
    totals.raise(T::kMaxRatio, ratio.free.value);
    totals.raise(T::kMaxMinusRatio, -ratio.free.value);
    totals.raise(T::kMaxRatioClamped, ratio.clipped.value);
    totals.raise(T::kMaxMinusRatioClamped, -ratio.clipped.value);
  }

  ClippedPgOptions options_;
  ClippedPgColumns columns_;
};

template <class Formulas = ClippedPgFormulas, class Real = double>
std::unique_ptr<Objective> make_clipped_pg(const ObjectiveOptions& options) {
  return std::make_unique<ClippedPgObjective<Formulas, Real>>(ClippedPgOptions::from(options));
}

}  // namespace lossgrid
