// SPDX-License-Identifier: Apache-2.0
// The truth of `clipped_pg`: its forward formula, written on a tape after NeMo-RL's
// `ClippedPGLossFn` and independent of the formulas of its parts. Names: x current, p previous, q
// generation, f reference log-probability, A advantage, rho ratio, w importance weight.
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "impls/objectives/clipped_pg/aggregation/clipped_pg_truth_aggregation.h"
#include "impls/objectives/clipped_pg/clipped_pg.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_metrics.h"
#include "impls/objectives/clipped_pg/kl/clipped_pg_truth_kl.h"
#include "impls/objectives/clipped_pg/policy/policy_losses_truth.h"
#include "impls/objectives/clipped_pg/ratio/clipped_pg_truth_ratios.h"
#include "impls/objectives/clipped_pg/ratio/proximal_truth.h"
#include "impls/objectives/clipped_pg/selection/clipped_pg_truth_selection.h"
#include "impls/objectives/clipped_pg/weights/clipped_pg_truth_weights.h"

namespace lossgrid {
namespace {

class ClippedPgTruth : public TruthPart {
 public:
  ClippedPgTruth(TruthState& state, std::span<const TokenTruth> rows)
      : TruthPart(state), state_(state), loss_(state), ratios_(state), kl_(state), metrics_(state) {
    truth_.grad_logprob.assign(rows.size(), 0.0);
    read_tokens(rows);
  }

  /// True if a switch may be on either side.
  bool straddles() const { return tape_.straddles() || straddles_; }

  void run() {
    tape_.take_side(sides_.ratio);
    const ByToken<Var> ratios = ratios_.ratios();
    tape_.take_side(sides_.actor);
    const ByToken<Var> clipped = ratios_.clipped_ratios(ratios);
    const ByToken<Enclosure> log_weights = each<Enclosure>([](const TrueToken& token) {
      return token.has_generation() ? token.p.enclosure() - token.q : Enclosure(kNoLogWeight);
    });
    const TrueKeeps keeps = this->keeps();
    const TrueWeights weights = true_weights(options_, batch_.sample_mask, log_weights, keeps.alone,
                                             sides_.weight, truth_.branches);
    const TrueSelection selection = this->selection(ratios);
    straddles_ |= weights.straddles || keeps.straddles || selection.straddles;
    const Enclosure weight_scale = this->weight_scale(log_weights, keeps);
    loss_.count_sequences();
    const Var actor =
        loss_.in_loss(actor_terms(ratios, clipped, weights, weight_scale, keeps, selection));
    const double beta = options_.use_kl_in_reward ? 0 : options_.reference_policy_kl_penalty;
    tape_.take_side(sides_.kl);
    const Var kl = beta == 0 ? Var() : loss_.in_loss(kl_.kl_terms());
    const Var nll = positive_nll();
    Var loss = actor + constant(beta) * kl + constant(options_.positive_example_nll_weight) * nll;
    if (has_entropy_bonus()) loss = loss - constant(options_.entropy_coefficient) * entropy();
    truth_.loss = loss.enclosure();
    set_gradient(loss);

    truth_.metrics["loss"] = {Reduction::sum, truth_.loss, 1};
    truth_.metrics["kl_penalty"] = {Reduction::sum, kl.enclosure(),
                                    loss_.elements() > 0 ? 1.0 : 0.0};
    metrics_.add_ratio_metrics("probs_ratio", ratios);
    metrics_.add_ratio_metrics("probs_ratio_clamped", clipped);
    metrics_.add_weight_metrics(weights);
    if (options_.rejects()) metrics_.add_rejection_metric(keeps);
    if (options_.selects()) {
      metrics_.add_metric("selected_fraction", flat(selection.tokens), counts().valid_tokens);
    }
    metrics_.add_policy_metrics();
  }

 private:
  void read_tokens(std::span<const TokenTruth> rows) {
    tokens_.resize(static_cast<std::size_t>(batch_.sequences()));
    for (std::int64_t i = 0; i < batch_.sequences(); ++i) {
      for (std::int64_t t = 1; t < batch_.length(i); ++t) {
        const std::int64_t slot = batch_.cu_seqlens[i] + t;
        if (batch_.token_mask[slot] == 0 || batch_.sample_mask[i] == 0) continue;
        const auto input = [&](TokenInput which) {
          const std::vector<float>& values = batch_.inputs[static_cast<std::size_t>(which)];
          return values.empty() ? 0.0 : values[slot];
        };
        TrueToken token;
        token.row = batch_.cu_seqlens_padded[i] + t - 1;
        token.x = tape_.variable(rows[token.row].logprob);
        if (has_entropies())
          token.entropy = tape_.variable(rows[token.row].terms[RowTerm::entropy]);
        token.p = options_.force_on_policy_ratio ? detach(token.x)
                                                 : Var(input(TokenInput::prev_logprobs));
        token.q = input(TokenInput::generation_logprobs);
        token.f = input(TokenInput::reference_policy_logprobs);
        token.advantage = input(TokenInput::advantages);
        if (options_.approximates_proximal()) {
          token.p = Var(true_proximal(options_, token.x.enclosure(), token.q,
                                      input(TokenInput::versions), truth_.branches));
        }
        token.anchor = true_anchor(options_, token);
        tokens_[i].push_back(token);
      }
    }
  }

  TrueKeeps keeps() {
    const ByToken<RejectionToken> tokens = each<RejectionToken>([](const TrueToken& token) {
      const Enclosure& p = token.p.enclosure();
      return RejectionToken{p - token.q, token.q - token.x.enclosure(), token.advantage,
                            token.has_generation()};
    });
    return true_keeps(options_, tokens, sides_.weight, truth_.branches);
  }

  TrueSelection selection(const ByToken<Var>& ratios) {
    ByToken<SelectableToken> tokens(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for (std::size_t k = 0; k < tokens_[i].size(); ++k) {
        const TrueToken& token = tokens_[i][k];
        const Enclosure distance = token.q - token.p.enclosure();
        tokens[i].push_back({token.x.enclosure(), token.entropy.enclosure(),
                             ratios[i][k].enclosure(), distance * distance, token.advantage,
                             token.row + 1 - batch_.cu_seqlens_padded[i]});
      }
    }
    return true_selection(options_, tokens, sides_.selection, truth_.branches);
  }

  /// Returns 1 / the mean weight of tokens, or of sequences with a valid token. Weights that may be
  /// on either side of a bound are on both here, whatever side the others are on.
  Enclosure weight_scale(const ByToken<Enclosure>& log_weights, const TrueKeeps& keeps) const {
    if (!options_.rollout_is_batch_normalize) return 1.0;
    std::map<std::string, std::int64_t> counted_before;
    const TrueWeights weights = true_weights(options_, batch_.sample_mask, log_weights, keeps.alone,
                                             Side::either, counted_before);
    std::vector<Enclosure> terms;
    for (const std::vector<Enclosure>& tokens : weights.tokens) {
      if (tokens.empty()) continue;
      const auto end = options_.weighs_sequences() ? tokens.begin() + 1 : tokens.end();
      terms.insert(terms.end(), tokens.begin(), end);
    }
    const std::int64_t count =
        options_.weighs_sequences() ? counts().trained_sequences : counts().valid_tokens;
    if (count == 0) return 1.0;
    // A pack that is a part of the global batch is given the sum of that.
    const Enclosure total = batch_.input_sum != 0 ? Enclosure(batch_.input_sum) : sum(terms);
    const Enclosure mean = total * reciprocal(count);
    return mean.value > 1e-8 ? 1.0 / mean : Enclosure(1.0);
  }

  ByToken<Var> actor_terms(const ByToken<Var>& ratios, const ByToken<Var>& clipped,
                           const TrueWeights& weights, const Enclosure& weight_scale,
                           const TrueKeeps& keeps, const TrueSelection& selection) {
    ByToken<Var> terms = true_policy_terms(state_, ratios, clipped, selection.tokens);
    const bool drops_selected = options_.selects() && !options_.is_kl_cov();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for (std::size_t k = 0; k < tokens_[i].size(); ++k) {
        Var& term = terms[i][k];
        if (drops_selected) term = Var(opposite(selection.tokens[i][k])) * term;
        if (options_.zero_weights_nonfinite()) {
          truth_.branches["generation_lacks"] += tokens_[i][k].has_generation() ? 0 : 1;
        }
        ratios_.count_log_bounds(ratios[i][k].value());
        if (options_.use_importance_sampling_correction) {
          term = Var(weights.tokens[i][k] * weight_scale) * term;
        }
        term = Var(keeps.tokens[i][k]) * term;
      }
    }
    return terms;
  }

  /// Returns - sum of x over tokens of sequences with reward > 0 / their number in the global
  /// batch.
  Var positive_nll() {
    MetricTruth& metric = truth_.metrics["positive_nll_loss"];
    if (options_.positive_example_nll_weight == 0) return Var();
    metric.count = counts().positive_tokens > 0 ? 1 : 0;
    std::vector<Var> terms;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!(batch_.rewards[i] > 0)) continue;
      for (const TrueToken& token : tokens_[i]) terms.push_back(-token.x);
    }
    truth_.branches["positive_sequence_tokens"] = static_cast<std::int64_t>(terms.size());
    const Var nll = TrueAggregation::over(sum(terms), counts().positive_tokens);
    metric.amount = nll.enclosure();
    return nll;
  }

  bool has_entropy_bonus() const { return options_.entropy_coefficient != 0; }
  bool has_entropies() const {
    return has_entropy_bonus() || options_.selection() == Selection::top_entropy;
  }

  /// Returns the entropy of the policy, aggregated as the policy term.
  Var entropy() {
    const Var mean = loss_.in_loss(each<Var>([](const TrueToken& token) { return token.entropy; }));
    truth_.metrics["entropy"] = {Reduction::sum, mean.enclosure(),
                                 loss_.elements() > 0 ? 1.0 : 0.0};
    return mean;
  }

  void set_gradient(const Var& loss) {
    const std::vector<TrueToken> tokens = flat(tokens_);
    const auto set = [&](Var TrueToken::*number, std::vector<Enclosure>& by_row) {
      std::vector<Var> inputs;
      for (const TrueToken& token : tokens) inputs.push_back(token.*number);
      const std::vector<Enclosure> gradient = tape_.gradient(loss, inputs);
      for (std::size_t k = 0; k < tokens.size(); ++k) by_row[tokens[k].row] = gradient[k];
    };
    set(&TrueToken::x, truth_.grad_logprob);
    if (!has_entropies()) return;
    std::vector<Enclosure>& by_entropy = truth_.grad_terms[RowTerm::entropy];
    by_entropy.assign(truth_.grad_logprob.size(), 0.0);
    set(&TrueToken::entropy, by_entropy);
  }

  TruthState& state_;
  Tape tape_;
  TrueAggregation loss_;
  TrueRatios ratios_;
  TrueKl kl_;
  TrueMetrics metrics_;
};

}  // namespace

ObjectiveTruth clipped_pg_truth(const ClippedPgOptions& options, const PackedBatch& batch,
                                std::span<const TokenTruth> rows) {
  const auto run = [&](TruthState& state) {
    ClippedPgTruth formula(state, rows);
    formula.run();
    return formula.straddles();
  };
  TruthState either{options, batch, {}};
  if (!run(either)) return std::move(either.truth);
  either.truth.grad_sides = gradient_sides(
      [&](const Sides& sides) {
        TruthState state{options, batch, sides};
        run(state);
        return state.truth.grad_logprob;
      },
      {.kl = options.kl_penalty() != 0,
       .selects = options.selects(),
       .shares_ratio = options.sequence_ratio()});
  return std::move(either.truth);
}

}  // namespace lossgrid
