// SPDX-License-Identifier: Apache-2.0
// The truth of `clipped_pg`: its forward formula, written on a tape after NeMo-RL's
// `ClippedPGLossFn` and independent of clipped_pg_formulas.h. Names: x current, p previous, q
// generation, f reference log-probability, A advantage, rho ratio, w importance weight.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg.h"
#include "impls/objectives/clipped_pg_truth_rejection.h"
#include "impls/objectives/clipped_pg_truth_selection.h"
#include "impls/objectives/clipped_pg_truth_weights.h"
#include "impls/objectives/gradient_sides.h"
#include "impls/objectives/policy_losses_truth.h"
#include "impls/objectives/proximal_truth.h"

namespace lossgrid {
namespace {

struct TrueToken {
  std::int64_t row = 0;
  Var x;
  Var entropy;
  Var p;
  double q = 0;
  double f = 0;
  double advantage = 0;
  Var anchor;  // that the ratio is taken to: p, or q

  bool has_generation() const { return std::isfinite(q); }
};

/// Returns KL by r = reference - current.
template <typename Number>
Number kl_estimate(KlType type, const Number& r) {
  switch (type) {
    case KlType::k1:
      return -r;
    case KlType::k2:
      return Number(0.5) * r * r;
    case KlType::abs:
      return max(r, -r);
    default:
      return exp(r) - Number(1.0) - r;
  }
}

/// Returns (KL(p || u) + KL(q || u)) / 2, u = log((e^p + e^q) / 2) computed from the larger of
/// both.
Enclosure js_estimate(const Enclosure& p, const Enclosure& q) {
  const Enclosure u = max(p, q) + log(0.5 + 0.5 * exp(-abs(p - q)));
  return 0.5 * (kl_estimate(KlType::k3, p - u) + kl_estimate(KlType::k3, q - u));
}

class ClippedPgTruth {
 public:
  ClippedPgTruth(const ClippedPgOptions& options, const PackedBatch& batch,
                 std::span<const TokenTruth> rows, const Sides& sides)
      : options_(options), batch_(batch), sides_(sides) {
    truth_.grad_logprob.assign(rows.size(), 0.0);
    read_tokens(rows);
  }

  /// True if a switch may be on either side.
  bool straddles() const { return tape_.straddles() || straddles_; }

  ObjectiveTruth take() {
    tape_.take_side(sides_.actor);
    const ByToken<Var> ratios = this->ratios();
    const ByToken<Var> clipped = clipped_ratios(ratios);
    const ByToken<Enclosure> log_weights = each<Enclosure>([](const TrueToken& token) {
      return token.has_generation() ? token.p.enclosure() - token.q : Enclosure(kNoLogWeight);
    });
    const TrueKeeps keeps = this->keeps();
    const TrueWeights weights = true_weights(options_, batch_.sample_mask, log_weights, keeps.alone,
                                             sides_.weight, truth_.branches);
    const TrueSelection selection = this->selection(ratios);
    straddles_ |= weights.straddles || keeps.straddles || selection.straddles;
    const Enclosure weight_scale = this->weight_scale(log_weights, keeps);
    count_sequences();
    const Var actor =
        in_loss(actor_terms(ratios, clipped, weights, weight_scale, keeps, selection));
    const double beta = options_.use_kl_in_reward ? 0 : options_.reference_policy_kl_penalty;
    tape_.take_side(sides_.kl);
    const Var kl = beta == 0 ? Var() : in_loss(kl_terms());
    const Var nll = positive_nll();
    Var loss = actor + constant(beta) * kl + constant(options_.positive_example_nll_weight) * nll;
    if (has_entropy_bonus()) loss = loss - constant(options_.entropy_coefficient) * entropy();
    truth_.loss = loss.enclosure();
    set_gradient(loss);

    truth_.metrics["loss"] = {Reduction::sum, truth_.loss, 1};
    truth_.metrics["kl_penalty"] = {Reduction::sum, kl.enclosure(), elements() > 0 ? 1.0 : 0.0};
    add_ratio_metrics("probs_ratio", ratios);
    add_ratio_metrics("probs_ratio_clamped", clipped);
    add_weight_metrics(weights);
    if (options_.rejects()) add_rejection_metric(keeps);
    if (options_.selects()) {
      add_metric("selected_fraction", flat(selection.tokens), counts().valid_tokens);
    }
    add_policy_metrics();
    return std::move(truth_);
  }

 private:
  const Denominators& counts() const { return batch_.denominators; }

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
        token.anchor = options_.is_binary_dppo() ? Var(token.q) : token.p;
        tokens_[i].push_back(token);
      }
    }
  }

  /// Returns f(token) of every valid token.
  template <typename T, typename F>
  ByToken<T> each(F&& f) const {
    ByToken<T> results(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for (const TrueToken& token : tokens_[i]) results[i].push_back(f(token));
    }
    return results;
  }

  static Var over(const Var& total, std::int64_t count) {
    return count == 0 ? Var() : total * Var(reciprocal(count));
  }

  static Var mean(const std::vector<Var>& terms) {
    return over(sum(terms), static_cast<std::int64_t>(terms.size()));
  }

  /// True if the loss is a mean or a sum over tokens, whatever sequence they belong to.
  bool is_over_tokens() const {
    if (!options_.loss_agg_mode) return options_.token_level_loss;
    return options_.loss_agg_mode == AggregationMode::token_mean ||
           options_.loss_agg_mode == AggregationMode::token_sum;
  }

  /// Returns the number of sequences, or of groups, that a mean over them is divided by.
  std::int64_t sequences() const {
    if (!options_.loss_agg_mode) return counts().valid_sequences;
    if (options_.loss_agg_mode == AggregationMode::prompt_mean ||
        options_.loss_agg_mode == AggregationMode::token_mean_legacy) {
      return options_.count_masked_sequences ? counts().all_groups : counts().trained_groups;
    }
    return options_.count_masked_sequences ? counts().all_sequences : counts().trained_sequences;
  }

  /// Returns the number of elements that the loss is about; 0: it has none.
  std::int64_t elements() const {
    const bool is_over_samples = !options_.loss_agg_mode && !options_.token_level_loss;
    return is_over_samples ? counts().valid_sequences : counts().valid_tokens;
  }

  /// Returns what sequence i adds to the sum over sequences or groups.
  Var of_sequence(std::size_t i, const std::vector<Var>& terms) const {
    if (!options_.loss_agg_mode) return mean(terms);
    switch (*options_.loss_agg_mode) {
      case AggregationMode::sequence_mean_token_sum:
        return sum(terms);
      case AggregationMode::prompt_mean:
      case AggregationMode::token_mean_legacy:  // a part of the mean of its group
        return over(sum(terms), batch_.group_tokens[i]);
      case AggregationMode::sequence_mean_token_sum_norm:
        return sum(terms) / Var(constant(*options_.loss_scale_factor));
      default:
        return mean(terms);
    }
  }

  /// Returns the terms of tokens aggregated as the loss is.
  Var in_loss(const ByToken<Var>& terms) const {
    if (options_.loss_agg_mode == AggregationMode::token_sum) return sum(flat(terms));
    if (is_over_tokens()) return over(sum(flat(terms)), counts().valid_tokens);
    std::vector<Var> by_sequence;
    for (std::size_t i = 0; i < terms.size(); ++i) by_sequence.push_back(of_sequence(i, terms[i]));
    return over(sum(by_sequence), sequences());
  }

  void count_sequences() {
    if (!options_.loss_agg_mode || is_over_tokens()) return;
    std::int64_t& count = truth_.branches["sequence_without_targets"];
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      count += batch_.sample_mask[i] != 0 && tokens_[i].empty() ? 1 : 0;
    }
  }

  ByToken<Var> ratios() {
    if (options_.policy_loss == PolicyLoss::geo_mean) return geometric_means();
    if (options_.force_on_policy_ratio) {
      return each<Var>([](const TrueToken& token) { return score(token.x); });
    }
    if (options_.disable_ppo_ratio) {
      return each<Var>([](const TrueToken& token) { return token.x; });
    }
    ByToken<Var> logs = each<Var>([](const TrueToken& token) { return token.x - token.anchor; });
    for (std::vector<Var>& of_sequence : logs) {
      if (options_.sequence_level_importance_ratios) {
        const Var of_mean = mean(of_sequence);
        for (Var& log : of_sequence) {
          log = options_.gspo_token ? Tape::record(of_mean.enclosure(), log, 1.0) : of_mean;
        }
      }
      for (Var& log : of_sequence) log = exp(bounded_log(log));
    }
    return logs;
  }

  /// Returns the ratios of geo_mean, for each token that of its sequence.
  ByToken<Var> geometric_means() {
    ByToken<Var> ratios(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      std::vector<Var> logs;
      std::vector<double> advantages;
      for (const TrueToken& token : tokens_[i]) {
        logs.push_back(bounded_log(token.x - token.p));
        advantages.push_back(token.advantage);
      }
      const Var ratio = exp(mean(geo_mean_logs(options_, logs, advantages, truth_.branches)));
      ratios[i].assign(logs.size(), ratio);
    }
    return ratios;
  }

  /// Returns the logarithm of a ratio in its bounds, beyond which there is no gradient.
  Var bounded_log(const Var& log) const {
    if (!options_.log_ratio_min && !options_.log_ratio_max) return log;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return limited(log, options_.log_ratio_min.value_or(-kInfinity),
                   options_.log_ratio_max.value_or(kInfinity));
  }

  ByToken<Var> clipped_ratios(const ByToken<Var>& ratios) const {
    ByToken<Var> clipped = ratios;
    if (!has_ratio() || options_.policy_loss == PolicyLoss::geo_mean) return clipped;
    for (std::vector<Var>& of_sequence : clipped) {
      for (Var& rho : of_sequence) rho = limited(rho, lowest_ratio(), highest_ratio());
    }
    return clipped;
  }

  /// False where another number, without clip bounds, stands in the place of rho.
  bool has_ratio() const { return !options_.force_on_policy_ratio && !options_.disable_ppo_ratio; }
  double lowest_ratio() const {
    switch (options_.cispo_bounds) {
      case CispoBounds::upper:
        return 0;
      case CispoBounds::absolute:
        return options_.ratio_clip_min;
      default:
        return 1 - options_.ratio_clip_min;
    }
  }
  double highest_ratio() const {
    const double offset = options_.cispo_bounds == CispoBounds::offset ? 1 : 0;
    return offset + options_.ratio_clip_max;
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
    return true_selection(options_, tokens, sides_.weight, truth_.branches);
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
    ByToken<Var> terms(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const OfSequence of_sequence = this->of_sequence(tokens_[i]);
      for (std::size_t k = 0; k < tokens_[i].size(); ++k) {
        const TrueToken& token = tokens_[i][k];
        const Enclosure& selected = selection.tokens[i][k];
        Var loss = actor_term(token, of_sequence, ratios[i][k], clipped[i][k]);
        if (options_.policy_loss == PolicyLoss::kl_cov) {
          loss = loss + Var(selected * constant(options_.selecting.ppo_kl_coef)) *
                            max(token.x - token.p, token.p - token.x);
        } else if (options_.selects()) {
          loss = Var(opposite(selected)) * loss;
        }
        count_actor_branch(token.advantage, ratios[i][k].value());
        if (options_.takes_lack_of_generation()) {
          truth_.branches["generation_lacks"] += token.has_generation() ? 0 : 1;
        }
        count_log_bounds(ratios[i][k].value());
        const Var weighted = options_.use_importance_sampling_correction
                                 ? Var(weights.tokens[i][k] * weight_scale) * loss
                                 : loss;
        terms[i].push_back(Var(keeps.tokens[i][k]) * weighted);
      }
    }
    return terms;
  }

  /// Numbers of a sequence that policy losses of its tokens depend on, without gradient.
  struct OfSequence {
    Enclosure advantage;  // the mean one
    VespoGates gates = {};
  };

  OfSequence of_sequence(const std::vector<TrueToken>& tokens) {
    OfSequence numbers;
    if (tokens.empty()) return numbers;
    std::vector<Enclosure> terms;
    if (options_.policy_loss == PolicyLoss::geo_mean) {
      for (const TrueToken& token : tokens) terms.push_back(token.advantage);
      numbers.advantage = sum(terms) * reciprocal(static_cast<std::int64_t>(tokens.size()));
    }
    if (options_.policy_loss == PolicyLoss::vespo) {
      for (const TrueToken& token : tokens) {
        terms.push_back(bounded_log(token.x - token.p).enclosure());
      }
      numbers.gates = vespo_gates(options_, sum(terms), truth_.branches);
    }
    return numbers;
  }

  Var actor_term(const TrueToken& token, const OfSequence& of_sequence, const Var& ratio,
                 const Var& clipped) {
    if (options_.use_cispo) return -token.advantage * detach(clipped) * token.x;
    switch (options_.policy_loss) {
      case PolicyLoss::sapo:
        return sapo(token.advantage, ratio);
      case PolicyLoss::geo_mean:
        return Var(-of_sequence.advantage) * ratio;
      case PolicyLoss::dro: {
        const Var d = token.x - token.p;
        return Var(constant(*options_.dro_beta)) * d * d / 2.0 - token.advantage * token.x;
      }
      case PolicyLoss::dppo_tv:
      case PolicyLoss::dppo_kl:
        return -token.advantage * Var(dppo_weight(token, ratio.enclosure())) * token.x;
      case PolicyLoss::dppo_binary_tv:
      case PolicyLoss::dppo_binary_kl:
        return -token.advantage * Var(dppo_weight(token, 1.0)) * ratio;
      case PolicyLoss::vespo:
        return -token.advantage * Var(of_sequence.gates.of(token.advantage)) * token.x;
      default:
        return surrogate(token.advantage, ratio);
    }
  }

  /// Returns the weight of a token in dppo: `ratio`, or 0.
  Enclosure dppo_weight(const TrueToken& token, const Enclosure& ratio) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double bound = options_.ratio_clip_c.value_or(kInfinity);
    truth_.branches["dppo_ratio_truncated"] += ratio.value > bound ? 1 : 0;
    const Enclosure diverged =
        has_diverged(options_, token.x.enclosure(), token.anchor.enclosure(), token.advantage);
    truth_.branches["dppo_kept"] += diverged.value > 0 ? 0 : 1;
    truth_.branches[token.advantage > 0 ? "dppo_dropped_above" : "dppo_dropped_below"] +=
        diverged.value > 0 ? 1 : 0;
    const Enclosure weight = limited(ratio, -kInfinity, bound);
    if (diverged.is_exact()) return diverged.value > 0 ? 0.0 : weight;
    straddles_ = true;
    if (sides_.actor == Side::either) {
      return diverged.value > 0 ? hull(0.0, weight) : hull(weight, 0.0);
    }
    return sides_.actor == Side::second ? 0.0 : weight;
  }

  /// -A (4 / tau) sigmoid(tau (rho - 1)).
  Var sapo(double advantage, const Var& rho) {
    const bool is_positive = advantage > 0;
    ++truth_.branches[is_positive ? "sapo_positive" : "sapo_negative"];
    const Var tau = constant(is_positive ? options_.tau_pos : options_.tau_neg);
    return -advantage * (4.0 / tau) * exp(log_sigmoid(tau * (rho - 1.0)));
  }

  /// max(-A rho, -A rho_c), and the dual clip.
  Var surrogate(double advantage, const Var& rho) {
    const Var loss = -advantage * clipped_on_one_side(rho, advantage >= 0);
    if (!options_.ratio_clip_c || advantage >= 0) return loss;
    return min(loss, -advantage * Var(constant(*options_.ratio_clip_c)));
  }

  /// Returns rho as it is in max(-A rho, -A rho_c): clipped from above for A > 0, from below for
  /// A < 0. max() of the tape would take rho and rho_c for two numbers that may lie on different
  /// sides of a bound. Inside the clip range the two sides of the maximum are one number, half of
  /// the gradient from each; just outside, at either bound, products of float32 may still tie, and
  /// the clamp passes nothing: half of the gradient.
  Var clipped_on_one_side(const Var& rho, bool from_above) {
    if (!options_.clips()) return rho;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double low = lowest_ratio();
    const double high = highest_ratio();
    const Enclosure used = from_above ? limited(rho.enclosure(), -kInfinity, high)
                                      : limited(rho.enclosure(), low, kInfinity);
    const Enclosure near = rounded(rho.enclosure(), 4);  // rho, the bound and two products
    const bool is_at_low = near.contains(low);
    const bool is_at_high = near.contains(high);
    const bool is_clipped = from_above ? rho.value() > high : rho.value() < low;
    Enclosure share = is_clipped ? 0.0 : 1.0;
    if (is_at_low || is_at_high) share = share_at_bound(share, from_above ? is_at_high : is_at_low);
    return Tape::record(used, rho, share);
  }

  /// Returns the share of the gradient next to a bound; `clips`: beyond it there is none.
  Enclosure share_at_bound(Enclosure share, bool clips) {
    straddles_ = true;
    const double beyond = clips ? 0 : 1;
    if (sides_.actor == Side::first) return 1.0;
    if (sides_.actor == Side::second) return beyond;
    if (sides_.actor == Side::tie) return 0.5;
    share.low = std::min(beyond, 0.5);
    share.high = 1;
    return share;
  }

  void count_actor_branch(double advantage, double rho) {
    ++truth_.branches["tokens"];
    truth_.branches["advantage_zero"] += advantage == 0 ? 1 : 0;
    if (!options_.clips()) return;
    const bool below = rho < lowest_ratio();
    const bool above = rho > highest_ratio();
    truth_.branches["ratio_inside_clip"] += !below && !above ? 1 : 0;
    const auto count_side = [&](const std::string& name, bool is_taken, bool is_clipped) {
      truth_.branches[name] += is_taken ? 1 : 0;
      if (options_.use_cispo) return;  // uses the clipped ratio on either side
      truth_.branches[name + "_clipped_active"] += is_taken && is_clipped ? 1 : 0;
    };
    count_side("ratio_below_clip", below, advantage < 0);
    count_side("ratio_above_clip", above, advantage > 0);
    if (!options_.ratio_clip_c) return;
    const bool is_dual = advantage < 0 && std::max(rho, lowest_ratio()) > *options_.ratio_clip_c;
    truth_.branches["dual_clip_active"] += is_dual ? 1 : 0;
  }

  void count_log_bounds(double rho) {
    const auto& low = options_.log_ratio_min;
    const auto& high = options_.log_ratio_max;
    if (low) truth_.branches["log_ratio_at_least"] += std::log(rho) <= *low + 1e-9 ? 1 : 0;
    if (high) truth_.branches["log_ratio_at_most"] += std::log(rho) >= *high - 1e-9 ? 1 : 0;
  }

  /// Returns the factor of a token's KL.
  Var kl_weight(const TrueToken& token) const {
    switch (options_.kl_gradient) {
      case KlGradient::score:
        if (!options_.use_on_policy_kl_approximation) return score(token.x);
        return token.has_generation() ? exp(token.x - token.q) : Var();
      case KlGradient::ratio:
        return options_.force_on_policy_ratio ? score(token.x) : exp(token.x - token.p);
      default:
        return 1.0;
    }
  }

  /// Returns the KL with the gradient that stands in the place of its own.
  Var with_kl_gradient(const TrueToken& token, const Var& kl) {
    const Enclosure& x = token.x.enclosure();
    const Enclosure distance = x - token.f;
    if (options_.kl_gradient == KlGradient::straight_through) {
      return Tape::record(kl.enclosure(), token.x, distance);
    }
    if (options_.kl_gradient != KlGradient::importance) return kl;
    const Enclosure ratio = exp(x - token.p.enclosure());
    truth_.branches["kl_importance_truncated"] += ratio.value > 10 ? 1 : 0;
    return Tape::record(kl.enclosure(), token.x, min(ratio, 10.0) * distance);
  }

  ByToken<Var> kl_terms() {
    return each<Var>([&](const TrueToken& token) {
      const std::optional<double>& input_bound = options_.kl_input_clamp_value;
      const std::optional<double>& output_bound = options_.kl_output_clamp_value;
      Var r = token.f - token.x;
      Var weight = kl_weight(token);
      const bool is_finite = !options_.use_on_policy_kl_approximation ||
                             (token.has_generation() && is_finite_float(weight.value()));
      if (!is_finite) weight = Var();
      Enclosure is_clamped = 0.0;
      if (input_bound) {
        is_clamped = side_of(is_positive(abs(r.enclosure()) - constant(*input_bound)));
        r = limited(r, -*input_bound, *input_bound);
        // The weight keeps its value and loses its gradient.
        weight = Tape::record(weight.enclosure(), weight, 1.0 - is_clamped);
      }
      const Var kl = weight * kl_estimate(options_.reference_policy_kl_type, r);
      const bool is_limited = output_bound && std::abs(kl.value()) > *output_bound;
      count_kl_branch(is_finite, is_clamped.value > 0, is_limited);
      const Var limited_kl = output_bound ? limited(kl, -*output_bound, *output_bound) : kl;
      return with_kl_gradient(token, limited_kl);
    });
  }

  /// Returns `is_clamped`, 0 or 1 if a side is to be taken.
  Enclosure side_of(const Enclosure& is_clamped) {
    if (is_clamped.is_exact()) return is_clamped;
    straddles_ = true;
    if (sides_.kl == Side::either) return is_clamped;
    return sides_.kl == Side::second ? 1.0 : 0.0;
  }

  void count_kl_branch(bool is_finite, bool input_clamped, bool output_clamped) {
    const auto count = [&](const char* name, bool is_taken) {
      truth_.branches[name] += is_taken ? 1 : 0;
    };
    if (options_.use_on_policy_kl_approximation) count("kl_weight_not_finite", !is_finite);
    count("kl_live", is_finite && !input_clamped && !output_clamped);
    if (options_.kl_input_clamp_value) count("kl_input_clamped", is_finite && input_clamped);
    if (options_.kl_output_clamp_value) {
      count("kl_output_clamped", is_finite && !input_clamped && output_clamped);
    }
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
    const Var nll = over(sum(terms), counts().positive_tokens);
    metric.amount = nll.enclosure();
    return nll;
  }

  bool has_entropy_bonus() const { return options_.entropy_coefficient != 0; }
  bool has_entropies() const {
    return has_entropy_bonus() || options_.selection() == Selection::top_entropy;
  }

  /// Returns the entropy of the policy, aggregated as the policy term.
  Var entropy() {
    const Var mean = in_loss(each<Var>([](const TrueToken& token) { return token.entropy; }));
    truth_.metrics["entropy"] = {Reduction::sum, mean.enclosure(), elements() > 0 ? 1.0 : 0.0};
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

  /// Returns the sum of the terms / denominator.
  void add_metric(const std::string& name, const std::vector<Enclosure>& terms,
                  std::int64_t denominator) {
    MetricTruth& metric = truth_.metrics[name];
    metric.count = denominator > 0 ? 1 : 0;
    if (denominator > 0) metric.amount = sum(terms) * reciprocal(denominator);
  }

  void add_ratio_metrics(const std::string& name, const ByToken<Var>& ratios) {
    std::vector<Enclosure> values;
    for (const Var& rho : flat(ratios)) values.push_back(rho.enclosure());
    add_metric(name, values, counts().valid_tokens);
    const auto count = static_cast<double>(values.size());
    MetricTruth least{Reduction::min, values.empty() ? 0.0 : values[0], count};
    MetricTruth largest{Reduction::max, least.amount, count};
    for (const Enclosure& value : values) {
      least.amount = min(least.amount, value);
      largest.amount = max(largest.amount, value);
    }
    truth_.metrics[name + "_min"] = least;
    truth_.metrics[name + "_max"] = largest;
  }

  void add_weight_metrics(const TrueWeights& weights) {
    const bool by_sequence = options_.weighs_sequences();
    const std::int64_t tokens = counts().valid_tokens;
    const std::int64_t sequences = counts().valid_sequences;
    add_metric("sampling_importance_ratio", by_sequence ? weights.sequences : flat(weights.tokens),
               by_sequence ? sequences : tokens);
    if (options_.truncated_importance_sampling_type == Truncation::none) return;
    const bool masks = options_.truncated_importance_sampling_type == Truncation::seq_mask_tis;
    add_metric("is_oob_ratio", weights.out_of_bounds, by_sequence || masks ? sequences : tokens);
  }

  void add_rejection_metric(const TrueKeeps& keeps) {
    std::vector<Enclosure> rejected;
    for (const Enclosure& keep : flat(keeps.tokens)) rejected.push_back(1.0 - keep);
    add_metric("rollout_rs_masked_fraction", rejected, counts().valid_tokens);
  }

  /// Adds the metrics of the distances between the policies.
  void add_policy_metrics() {
    const KlType type = options_.reference_policy_kl_type;
    const auto add = [&](const char* name, auto&& f) {
      const auto term = [&](const TrueToken& token) {
        if (!token.has_generation()) return Enclosure();  // no distance to a policy
        return f(token.x.enclosure(), token.p.enclosure(), Enclosure(token.q));
      };
      add_metric(name, flat(each<Enclosure>(term)), counts().valid_tokens);
    };
    using E = const Enclosure&;
    add("token_mult_prob_error", [](E, E p, E q) { return exp(abs(q - p)); });
    add("gen_kl_error", [&](E, E p, E q) { return kl_estimate(type, p - q); });
    add("policy_kl_error", [&](E, E p, E q) { return kl_estimate(type, q - p); });
    add("js_divergence_error", [](E, E p, E q) { return js_estimate(p, q); });
    add("approx_entropy", [](E x, E, E q) { return -(exp(x - q) * x); });
    double samples = 0;
    for (const std::uint8_t mask : batch_.sample_mask) samples += mask;
    truth_.metrics["num_valid_samples"] = {Reduction::count, samples, 1};
  }

  const ClippedPgOptions& options_;
  const PackedBatch& batch_;
  const Sides sides_;
  bool straddles_ = false;
  Tape tape_;
  ByToken<TrueToken> tokens_;
  ObjectiveTruth truth_;
};

}  // namespace

ObjectiveTruth clipped_pg_truth(const ClippedPgOptions& options, const PackedBatch& batch,
                                std::span<const TokenTruth> rows) {
  ClippedPgTruth either(options, batch, rows, {});
  ObjectiveTruth truth = either.take();
  if (!either.straddles()) return truth;
  truth.grad_sides = gradient_sides([&](const Sides& sides) {
    return ClippedPgTruth(options, batch, rows, sides).take().grad_logprob;
  });
  return truth;
}

}  // namespace lossgrid
