// SPDX-License-Identifier: Apache-2.0
// Options of `clipped_pg` that tests put together, and a batch that reaches its branches.
#pragma once

#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/clipped_pg.h"
#include "objective_batch.h"

namespace lossgrid {

using Options = ObjectiveOptions;

/// Merges options; those of `a` win.
inline Options both(Options a, const Options& b) {
  a.insert(b.begin(), b.end());
  return a;
}

inline const Options kDual{{"ratio_clip_c", "1.3"}};
inline const Options kReinforce{{"disable_ppo_ratio", "true"}};
inline const Options kOnPolicy{{"force_on_policy_ratio", "true"}};
inline const Options kCispo{{"use_cispo", "true"}};
inline const Options kSequenceMean{{"token_level_loss", "false"}};
inline const Options kGspo{{"token_level_loss", "false"},
                           {"sequence_level_importance_ratios", "true"}};
inline const Options kSapo{{"policy_loss", "\"sapo\""}, {"tau_neg", "1.4"}};
inline const Options kNoKl{{"reference_policy_kl_penalty", "0"}};
inline const Options kEntropyBonus{{"entropy_coefficient", "0.3"}};
inline const Options kNll{{"positive_example_nll_weight", "0.3"}};

inline Options kl(const char* type) {
  return {{"reference_policy_kl_penalty", "0.5"}, {"reference_policy_kl_type", type}};
}

inline Options kl_gradient(const char* type, const char* gradient) {
  return {{"reference_policy_kl_penalty", "0.5"},
          {"reference_policy_kl_type", type},
          {"kl_gradient", gradient}};
}

inline const Options kLogBounds{{"log_ratio_min", "-0.5"}, {"log_ratio_max", "0.4"}};

inline const Options kKlOfGeneration =
    both(kl("\"k3\""), {{"use_on_policy_kl_approximation", "true"}});

inline Options truncation(const char* type) {
  return {{"use_importance_sampling_correction", "true"},
          {"truncated_importance_sampling_type", type},
          {"truncated_importance_sampling_ratio", "1.2"},
          {"truncated_importance_sampling_ratio_min", "0.9"}};
}

inline Options aggregated(const char* mode, Options more = {}) {
  return both({{"loss_agg_mode", mode}}, more);
}

/// Every way to aggregate the terms of tokens by `loss_agg_mode`.
inline const std::vector<Options> kAggregations = {
    aggregated("\"token-mean\""),
    aggregated("\"token-sum\""),
    aggregated("\"seq-mean-token-mean\""),
    aggregated("\"seq-mean-token-mean\"", {{"count_masked_sequences", "true"}}),
    aggregated("\"seq-mean-token-sum\""),
    aggregated("\"seq-mean-token-sum\"", {{"count_masked_sequences", "true"}}),
    aggregated("\"seq-mean-token-sum-norm\"", {{"loss_scale_factor", "3"}}),
    aggregated("\"prompt-mean\"", {{"prompt_group_size", "2"}}),
    aggregated("\"prompt-mean\"", {{"prompt_group_size", "2"}, {"count_masked_sequences", "true"}}),
    aggregated("\"token-mean-legacy\""),
    aggregated("\"token-mean-legacy\"", {{"count_masked_sequences", "true"}})};

inline std::string shown(const Options& options) {
  std::string text;
  for (const auto& [option, value] : options) text += option + '=' + value + ' ';
  return text;
}

/// Conventions of ratios and of KL gradients.
inline std::vector<Options> conventions() {
  const Options gspo_token = {{"token_level_loss", "false"},
                              {"sequence_level_importance_ratios", "true"},
                              {"gspo_token", "true"}};
  const Options absolute = {{"use_cispo", "true"},
                            {"cispo_bounds", "\"absolute\""},
                            {"ratio_clip_min", "0.9"},
                            {"ratio_clip_max", "1.2"}};
  std::vector<Options> all = {
      kLogBounds,
      both(kLogBounds, kDual),
      both(kLogBounds, kSapo),
      both(both(kLogBounds, kGspo), kNoKl),
      {{"log_ratio_max", "0.2"}},
      gspo_token,
      both(gspo_token, kDual),
      both(gspo_token, kLogBounds),
      both(gspo_token, both(kSapo, truncation("\"tis\""))),
      absolute,
      {{"use_cispo", "true"}, {"cispo_bounds", "\"upper\""}, {"ratio_clip_max", "1.1"}}};
  for (const char* type : {"\"k1\"", "\"abs\"", "\"k2\"", "\"k3\""}) {
    for (const char* gradient :
         {"\"score\"", "\"value\"", "\"straight-through\"", "\"importance\"", "\"ratio\""}) {
      all.push_back(kl_gradient(type, gradient));
      all.push_back(both(kl_gradient(type, gradient),
                         {{"kl_input_clamp_value", "0.4"}, {"kl_output_clamp_value", "0.1"}}));
    }
    all.push_back(both(kl_gradient(type, "\"ratio\""), kOnPolicy));
    all.push_back(both(kl_gradient(type, "\"importance\""), kGspo));
  }
  return all;
}

inline Options rejection(const char* name, const char* threshold, Options more = {}) {
  return both({{"rollout_rs", name}, {"rollout_rs_threshold", threshold}}, more);
}

inline Options policy_loss(const char* name, Options more = {}) {
  return both({{"policy_loss", name}}, more);
}

inline const Options kGeoMean = policy_loss("\"geo_mean\"", kSequenceMean);
inline const Options kDro = policy_loss("\"dro\"", {{"dro_beta", "0.7"}});
inline const Options kDppoTv =
    policy_loss("\"dppo_tv\"", {{"ratio_clip_min", "0.05"}, {"ratio_clip_max", "0.1"}});
inline const Options kDppoKl =
    policy_loss("\"dppo_kl\"", {{"ratio_clip_min", "0.01"}, {"ratio_clip_max", "0.03"}});
inline const Options kBinaryTv =
    policy_loss("\"dppo_binary_tv\"", {{"ratio_clip_min", "0.05"}, {"ratio_clip_max", "0.1"}});
inline const Options kBinaryKl =
    policy_loss("\"dppo_binary_kl\"", {{"ratio_clip_min", "0.01"}, {"ratio_clip_max", "0.03"}});
inline const Options kVespo = policy_loss("\"vespo\"");

/// Policy losses beside PPO's and sapo, each with what else it may be combined with.
inline std::vector<Options> policy_losses() {
  const Options corrects{{"use_importance_sampling_correction", "true"}};
  const Options by_sequence = both(corrects, {{"rollout_is", "\"sequence\""}});
  const Options opsm{{"off_policy_mask_threshold", "0.05"}};
  const Options wide{{"ratio_clip_min", "0.4"}, {"ratio_clip_max", "0.3"}};
  const Options gamma{{"vespo_k_pos", "1"},
                      {"vespo_lambda_pos", "0.5"},
                      {"vespo_k_neg", "0.25"},
                      {"vespo_lambda_neg", "1.5"}};
  return {kGeoMean,
          both(wide, kGeoMean),
          both(kGeoMean, kLogBounds),
          both(kGeoMean, by_sequence),
          both(kGeoMean, rejection("\"seq_mean_k2\"", "0.1", by_sequence)),
          both(kGeoMean, kl("\"k3\"")),
          both(policy_loss("\"geo_mean\""), kAggregations[0]),
          both(policy_loss("\"geo_mean\""), kAggregations[3]),
          both(policy_loss("\"geo_mean\"", kNoKl), kAggregations[6]),
          kDro,
          both(both(kDro, kNoKl), truncation("\"tis\"")),
          both(kDro, rejection("\"token_k2\"", "0.1", kSequenceMean)),
          kDppoTv,
          both(kDppoTv, kDual),
          both(kDppoTv, both(kDual, corrects)),
          both(kDppoTv, both(opsm, kLogBounds)),
          kDppoKl,
          both(kDppoKl, kDual),
          both(kDppoKl, both(kSequenceMean, truncation("\"icepop\""))),
          kBinaryTv,
          both(kBinaryTv, both(opsm, kLogBounds)),
          both(kBinaryTv, truncation("\"tis\"")),
          kBinaryKl,
          both(kBinaryKl, both(kSequenceMean, truncation("\"icepop\""))),
          kVespo,
          both(kVespo, gamma),
          both(kVespo, both(gamma, opsm)),
          both(kVespo, both(kLogBounds, kSequenceMean)),
          both(both(kVespo, gamma), kAggregations[5]),
          both(kVespo, rejection("\"token_k1\"", "1.2"))};
}

inline Options proximal(const char* method, Options more = {}) {
  return both({{"prox_logp_method", method}, {"current_version", "5"}}, more);
}

/// Off-policy corrections beside truncated weights.
inline std::vector<Options> corrections() {
  const Options low{{"rollout_rs_threshold_min", "0.8"}};
  const Options veto{{"veto_ratio_min", "0.5"}, {"veto_ratio_max", "2"}};
  const Options opsm{{"off_policy_mask_threshold", "0.05"}};
  const Options normalised{{"rollout_is_batch_normalize", "true"}};
  const Options corrects{{"use_importance_sampling_correction", "true"}};
  const auto weights = [&](const char* level) {
    return both({{"rollout_is", level}}, truncation("\"tis\""));
  };
  const Options first = rejection("\"token_k1\"", "1.3", {{"token_masks_first", "true"}});
  std::vector<Options> all = {veto,
                              {{"veto_ratio_min", "0.5"}},
                              opsm,
                              both(veto, opsm),
                              both(opsm, kSequenceMean),
                              rejection("\"seq_max_k2\"", "0.2"),
                              rejection("\"seq_max_k3\"", "0.2", veto),
                              rejection("\"token_k1\"", "1.2", low),
                              rejection("\"seq_sum_k1\"", "1.5", low),
                              rejection("\"seq_mean_k1\"", "1.1", both(low, opsm)),
                              weights("\"token\""),
                              weights("\"sequence\""),
                              weights("\"geometric\""),
                              both({{"rollout_is", "\"token\""}}, both(kGspo, corrects)),
                              both({{"rollout_is", "\"geometric\""}}, both(kGspo, corrects)),
                              both(weights("\"sequence\""), first),
                              both(weights("\"geometric\""), first),
                              both(weights("\"token\""), normalised),
                              both(weights("\"sequence\""), both(first, normalised)),
                              both(weights("\"geometric\""), normalised),
                              both(truncation("\"icepop\""), both(veto, normalised)),
                              both(truncation("\"seq-mask-tis\""), both(first, veto))};
  for (const char* name : {"\"token_k2\"", "\"token_k3\"", "\"seq_sum_k2\"", "\"seq_sum_k3\"",
                           "\"seq_mean_k2\"", "\"seq_mean_k3\""}) {
    all.push_back(rejection(name, "0.1"));
    all.push_back(rejection(name, "0.1", both(kGspo, opsm)));
  }
  for (std::size_t k = all.size(); k-- > 0;) {
    if (all[k].contains("token_level_loss")) continue;
    all.push_back(both(all[k], k % 3 == 0 ? kGspo : k % 3 == 1 ? kCispo : kSapo));
  }
  for (const char* method : {"\"loglinear\"", "\"linear\""}) {
    for (const Options& more :
         {Options(), kDual, kSapo, kCispo, kLogBounds, both(kGspo, truncation("\"tis\"")),
          truncation("\"icepop\""), both(kReinforce, corrects), both(kGeoMean, kNoKl), kDro, kVespo,
          kDppoKl, kBinaryTv, rejection("\"seq_mean_k1\"", "1.1", low)}) {
      all.push_back(proximal(method, more));
    }
  }
  // Masks of sequences exclude weights of sequences, which ratios of sequences have.
  std::erase_if(all, [](const Options& options) {
    const auto type = options.find("truncated_importance_sampling_type");
    return type != options.end() && type->second == "\"seq-mask-tis\"" &&
           options.contains("sequence_level_importance_ratios");
  });
  return all;
}

inline Options clip_cov(const char* ratio, Options more = {}) {
  return both(more, {{"policy_loss", "\"clip_cov\""},
                     {"clip_cov_ratio", ratio},
                     {"clip_cov_lb", "0.05"},
                     {"clip_cov_ub", "0.8"}});
}

inline Options kl_cov(const char* ratio, Options more = {}) {
  return both(more,
              {{"policy_loss", "\"kl_cov\""}, {"kl_cov_ratio", ratio}, {"ppo_kl_coef", "0.3"}});
}

inline Options top_entropy(const char* share, Options more = {}) {
  return both({{"top_entropy_quantile", share}}, more);
}

inline Options second_moment(const char* threshold, Options more = {}) {
  return both({{"m2_threshold", threshold}}, more);
}

/// Selections of tokens, each with what else it may be combined with.
inline std::vector<Options> selections() {
  const Options gspo_token = both({{"gspo_token", "true"}}, kGspo);
  const Options corrects{{"use_importance_sampling_correction", "true"}};
  return {clip_cov("0.2"),
          clip_cov("0.1", {{"clip_cov_seed", "7"}}),
          clip_cov("0.0002", both(kSequenceMean, truncation("\"tis\""))),
          clip_cov("1", both(kEntropyBonus, kl("\"k3\""))),
          clip_cov("0.2", both(kLogBounds, kAggregations[4])),
          kl_cov("0.3"),
          kl_cov("0.0002", kNoKl),
          kl_cov("0.2", both(kSequenceMean, both(corrects, rejection("\"token_k1\"", "1.2")))),
          kl_cov("1", kLogBounds),
          top_entropy("0.25"),
          top_entropy("0.6", both(kDual, kEntropyBonus)),
          top_entropy("0.3", gspo_token),
          top_entropy("0", kCispo),
          top_entropy("0.5", both(kOnPolicy, kNll)),
          top_entropy("0.35", both(kDppoTv, truncation("\"seq-mask-tis\""))),
          second_moment("0.05"),
          second_moment("0.001", kReinforce),
          second_moment("0.1", both(kSapo, truncation("\"icepop\""))),
          second_moment("0.02", both(kVespo, kAggregations[3])),
          second_moment("0.08", both(kDro, kNoKl)),
          clip_cov("0.2", proximal("\"loglinear\"")),
          kl_cov("0.3", proximal("\"linear\"")),
          second_moment("0.002", proximal("\"loglinear\"")),
          second_moment("0.002", proximal("\"linear\"", corrects)),
          top_entropy("0.25", proximal("\"linear\""))};
}

/// Returns every legal combination of the options of the ratio, the KL penalty, importance weights
/// and the NLL term; every third with an entropy bonus. Each stands a second time with one of the
/// aggregations, in turn.
inline std::vector<Options> all_options() {
  const std::vector<Options> ratios = {{},
                                       kDual,
                                       kReinforce,
                                       kOnPolicy,
                                       kCispo,
                                       {{"ratio_clip_max", "0.4"}},
                                       kSequenceMean,
                                       kGspo,
                                       both(kGspo, kDual),
                                       both(kGspo, kReinforce),
                                       both(kGspo, kOnPolicy),
                                       kSapo,
                                       both(kSapo, kGspo)};
  const std::vector<Options> penalties = {
      {},
      kNoKl,
      {{"use_kl_in_reward", "true"}},
      kl("\"k1\""),
      kl("\"k2\""),
      kKlOfGeneration,
      both(kl("\"k3\""), {{"kl_input_clamp_value", "0.4"}, {"kl_output_clamp_value", "null"}}),
      both(kKlOfGeneration, {{"kl_input_clamp_value", "null"}, {"kl_output_clamp_value", "0.1"}})};
  const std::vector<Options> weights = {{},
                                        {{"use_importance_sampling_correction", "true"}},
                                        truncation("\"tis\""),
                                        {{"use_importance_sampling_correction", "true"},
                                         {"truncated_importance_sampling_type", "\"tis\""},
                                         {"truncated_importance_sampling_ratio", "1.1"}},
                                        truncation("\"icepop\""),
                                        truncation("\"seq-mask-tis\"")};
  std::vector<Options> all;
  for (const Options& ratio : ratios) {
    for (const Options& penalty : penalties) {
      for (const Options& weight : weights) {
        for (const Options& nll : {Options{}, kNll}) {
          const Options options = both(both(ratio, penalty), both(weight, nll));
          const bool is_refused =
              options.contains("sequence_level_importance_ratios") && weight == weights.back();
          if (is_refused) continue;
          all.push_back(all.size() % 3 == 2 ? both(options, kEntropyBonus) : options);
          all.push_back(both(all.back(), kAggregations[all.size() % kAggregations.size()]));
        }
      }
    }
  }
  for (const Options& convention : conventions()) all.push_back(convention);
  for (const Options& correction : corrections()) all.push_back(correction);
  for (const Options& loss : policy_losses()) all.push_back(loss);
  for (const Options& selection : selections()) all.push_back(selection);
  return all;
}

/// Returns `drift`, or near where far generation log-probabilities make ratios that are no float32.
inline Drift drift_of(const Options& options, Drift drift) {
  const ClippedPgOptions parsed = ClippedPgOptions::from(options);
  return parsed.approximates_proximal() || parsed.is_binary_dppo() ? Drift::near : drift;
}

/// Returns a batch with a masked sequence, an empty one, one without targets and ragged masks.
inline ObjectiveBatch batch_of(std::uint64_t seed, Drift drift = Drift::near) {
  return make_objective_batch({.lengths = {9, 1, 6, 0, 5, 12, 2},
                               .sample_mask = {1, 1, 1, 1, 0, 1, 1},
                               .drift = drift,
                               .seed = seed});
}

}  // namespace lossgrid
