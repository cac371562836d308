// SPDX-License-Identifier: Apache-2.0
// ClippedPgOptions: the options of `clipped_pg`, under the names and with the defaults of NeMo-RL's
// `ClippedPGLossConfig`, others under the names of the framework that named them first, and the
// consequences of their combination. Combinations without a meaning are rejected, among them those
// that NeMo-RL rejects. nvcc compiles this header.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "impls/objectives/aggregation.h"
#include "impls/objectives/clipped_pg_selection_options.h"

namespace lossgrid {

struct ObjectiveNeeds;
class OptionReader;

/// Estimators of KL(x || ref) from r = ref - x (J. Schulman, "Approximating KL Divergence", 2020).
enum class KlType {
  k1,   // -r
  k2,   // r^2 / 2
  k3,   // e^r - 1 - r
  abs,  // |r|
};

/// Gradient of the KL term of a token.
enum class KlGradient {
  score,             // of the estimator times e^(x - x without gradient), as NeMo-RL
  value,             // of the estimator
  straight_through,  // x - ref, whatever the estimator is: "k3+" of verl
  importance,        // min(e^(x - prev), 10) (x - ref): unbiased_gradient of OpenRLHF
  ratio,             // of the estimator times the ratio: use_bias_correction_kl of TRL
};

/// Source of the proximal policy, to which the ratio is taken.
enum class ProximalPolicy {
  recompute,  // prev_logprobs
  loglinear,  // between the generating and the current policy, by logarithms
  linear,     // by probabilities
};

/// Meaning of ratio_clip_min and ratio_clip_max for CISPO.
enum class CispoBounds {
  offset,    // 1 - min and 1 + max
  upper,     // max, and no lower bound
  absolute,  // min and max
};

/// Treatment of importance weights w outside of [ratio_min, ratio].
enum class Truncation {
  none,
  tis,           // clamped
  icepop,        // 0
  seq_mask_tis,  // 0 for all tokens of a sequence whose mean is outside
};

/// Importance weight of a token, by the log weights of its sequence.
enum class WeightLevel {
  token,      // its own
  sequence,   // of their sum
  geometric,  // of their mean
};

/// Rule by which tokens or sequences lose their policy term, by their log weights.
enum class RejectionLevel { none, token, sequence_sum, sequence_mean, sequence_max };
enum class RejectionStatistic {
  k1,  // the log weight w: e^w is to be in [threshold_min, threshold]
  k2,  // w^2 / 2, at most the threshold
  k3,  // e^w - 1 - w, at most the threshold
};

/// Loss of a token by its advantage and ratio (policy_losses.h).
enum class PolicyLoss {
  ppo,       // with clip bounds
  sapo,      // Soft Adaptive Policy Optimization, a soft gate in the place of the clip
  geo_mean,  // Geometric-Mean Policy Optimization, one ratio of clipped logarithms for a sequence
  dro,       // Direct Reward Optimization, a quadratic penalty of the log ratio
  dppo_tv,   // Divergence PPO, a mask by the distance of probabilities
  dppo_kl,   // the same by a binary KL
  vespo,     // gamma weights by the ratio of a sequence
  clip_cov,  // as ppo, and some tokens of a high covariance have no policy term
  kl_cov,    // without clip bounds, and tokens of the highest covariance have a penalty
  dppo_binary_tv,  // dppo_tv and dppo_kl with the gradient of the ratio, to the generating policy
  dppo_binary_kl,
};

/// Treatment of a generation log-probability that is not finite.
enum class LackOfGeneration {
  refused,
  zero_weight,  // the token, or the sequence that has one weight, has the importance weight 0
  drop,         // the token is masked
};

struct ClippedPgOptions {
  bool token_level_loss = true;                  // false: mean over sequences of their token means
  std::optional<AggregationMode> loss_agg_mode;  // in the place of token_level_loss; verl
  std::optional<double> loss_scale_factor;       // of seq-mean-token-sum-norm; verl
  bool count_masked_sequences = false;           // in means over sequences by loss_agg_mode
  std::optional<double> prompt_group_size;       // neighbours that answer one prompt; prompt-mean
  PolicyLoss policy_loss = PolicyLoss::ppo;      // verl, as tau_pos and tau_neg
  double tau_pos = 1.0;                          // temperature of sapo for advantages above 0
  double tau_neg = 1.05;                         // for others
  std::optional<double> dro_beta;                // weight of the penalty of dro; verl
  double vespo_k_pos = 2.0;                      // weights of vespo for advantages of at least 0
  double vespo_lambda_pos = 3.0;                 // TRL
  double vespo_k_neg = 3.0;                      // for others
  double vespo_lambda_neg = 2.0;
  double ratio_clip_min = 0.2;
  double ratio_clip_max = 0.2;
  std::optional<double> ratio_clip_c;  // dual clip
  bool disable_ppo_ratio = false;      // REINFORCE
  bool force_on_policy_ratio = false;  // previous := current log-probabilities
  bool use_cispo = false;              // a clipped ratio that weighs, without gradient
  CispoBounds cispo_bounds = CispoBounds::offset;
  bool sequence_level_importance_ratios = false;  // GSPO
  bool gspo_token = false;  // its ratio has the gradient of the token's own log-probability
  std::optional<double> log_ratio_min;  // bounds of the logarithm of a ratio, without gradient
  std::optional<double> log_ratio_max;  // beyond them
  ProximalPolicy prox_logp_method = ProximalPolicy::recompute;  // AReaL
  std::optional<double> current_version;  // of the policy that is trained, for the others
  double reference_policy_kl_penalty = 0.01;
  KlType reference_policy_kl_type = KlType::k3;
  KlGradient kl_gradient = KlGradient::score;
  std::optional<double> kl_input_clamp_value = 20.0;
  std::optional<double> kl_output_clamp_value = 10.0;
  bool use_kl_in_reward = false;  // then the loss has no KL term
  bool use_on_policy_kl_approximation = false;
  bool use_importance_sampling_correction = false;
  Truncation truncated_importance_sampling_type = Truncation::none;
  std::optional<double> truncated_importance_sampling_ratio;
  std::optional<double> truncated_importance_sampling_ratio_min;
  LackOfGeneration nonfinite_generation_logprobs = LackOfGeneration::refused;
  std::optional<WeightLevel> rollout_is;    // null: of sequences under sequence-level ratios; verl
  bool rollout_is_batch_normalize = false;  // divides weights by their mean; verl
  RejectionLevel rejection_level = RejectionLevel::none;  // of rollout_rs; verl
  RejectionStatistic rejection_statistic = RejectionStatistic::k1;
  std::optional<double> rollout_rs_threshold;
  std::optional<double> rollout_rs_threshold_min;
  std::optional<double> veto_ratio_min;  // a token with a weight outside of these bounds takes
  std::optional<double> veto_ratio_max;  // its sequence with it
  std::optional<double> off_policy_mask_threshold;  // TRL
  bool token_masks_first = false;  // sums over sequences are those of tokens that are not rejected
  double positive_example_nll_weight = 0;
  double entropy_coefficient = 0;  // c of - c H, H the entropy of the policy in nats
  SelectionOptions selecting;

  /// Throws bad_input for an unknown option, a bad value or a combination that is not allowed.
  static ClippedPgOptions from(const std::map<std::string, std::string>& options);
  static ClippedPgOptions read(const OptionReader& reader);

  /// Shares of tokens in the policy, KL and entropy terms.
  constexpr Aggregation aggregation() const {
    if (!loss_agg_mode) {
      return {.mode = token_level_loss ? AggregationMode::token_mean
                                       : AggregationMode::sequence_mean_token_mean};
    }
    return {.mode = *loss_agg_mode,
            .counted = count_masked_sequences ? CountedSequences::all : CountedSequences::trained,
            .scale_factor = loss_scale_factor.value_or(1)};
  }
  /// Weight of the KL term in the loss.
  constexpr double kl_penalty() const { return use_kl_in_reward ? 0 : reference_policy_kl_penalty; }
  /// True if all tokens of a sequence share one ratio.
  constexpr bool sequence_ratio() const {
    return sequence_level_importance_ratios && !force_on_policy_ratio && !disable_ppo_ratio;
  }
  /// True if the ratio is one of probabilities.
  constexpr bool has_ratio() const { return !force_on_policy_ratio && !disable_ppo_ratio; }
  /// Clip bounds of the ratio.
  constexpr double lowest_ratio() const {
    if (cispo_bounds == CispoBounds::offset) return 1 - ratio_clip_min;
    return cispo_bounds == CispoBounds::upper ? 0 : ratio_clip_min;
  }
  constexpr double highest_ratio() const {
    return cispo_bounds == CispoBounds::offset ? 1 + ratio_clip_max : ratio_clip_max;
  }
  /// True if the clipped logarithms of a sequence's ratios have one mean.
  constexpr bool is_geo_mean() const { return policy_loss == PolicyLoss::geo_mean; }
  constexpr bool is_vespo() const { return policy_loss == PolicyLoss::vespo; }
  constexpr bool is_dppo() const {
    return policy_loss == PolicyLoss::dppo_tv || policy_loss == PolicyLoss::dppo_kl;
  }
  constexpr bool is_kl_cov() const { return policy_loss == PolicyLoss::kl_cov; }
  /// True if the ratio is that to the generating policy.
  constexpr bool is_binary_dppo() const {
    return policy_loss == PolicyLoss::dppo_binary_tv || policy_loss == PolicyLoss::dppo_binary_kl;
  }
  /// True if the proximal policy is made of the generating and the current one.
  constexpr bool approximates_proximal() const {
    return prox_logp_method != ProximalPolicy::recompute;
  }
  /// True if the loss has clip bounds of that ratio.
  constexpr bool clips() const {
    return has_ratio() && (policy_loss == PolicyLoss::ppo || policy_loss == PolicyLoss::clip_cov);
  }
  constexpr Selection selection() const {
    if (policy_loss == PolicyLoss::clip_cov) return Selection::clip_cov;
    if (policy_loss == PolicyLoss::kl_cov) return Selection::kl_cov;
    if (selecting.top_entropy_quantile < 1) return Selection::top_entropy;
    return selecting.m2_threshold ? Selection::second_moment : Selection::none;
  }
  constexpr bool selects() const { return selection() != Selection::none; }
  constexpr bool truncates() const {
    return truncated_importance_sampling_type != Truncation::none;
  }
  constexpr bool masks_sequences() const {
    return truncated_importance_sampling_type == Truncation::seq_mask_tis;
  }

  /// True if all tokens of a sequence share one importance weight.
  constexpr bool weighs_sequences() const {
    return rollout_is ? *rollout_is != WeightLevel::token : sequence_level_importance_ratios;
  }
  constexpr bool takes_lack_of_generation() const {
    return nonfinite_generation_logprobs == LackOfGeneration::zero_weight;
  }
  constexpr bool vetoes() const { return veto_ratio_min || veto_ratio_max; }
  /// True if a rule drops whole sequences by the weights of their tokens.
  constexpr bool rejects_sequences() const {
    return vetoes() ||
           (rejection_level != RejectionLevel::none && rejection_level != RejectionLevel::token);
  }
  /// True if tokens may lose their policy term.
  constexpr bool rejects() const {
    return rejects_sequences() || rejection_level == RejectionLevel::token ||
           off_policy_mask_threshold;
  }

  ObjectiveNeeds needs() const;
};

}  // namespace lossgrid
