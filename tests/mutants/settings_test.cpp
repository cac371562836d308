// SPDX-License-Identifier: Apache-2.0
// Tests that suites have every option of every objective at a value that is not its default, alone
// and in every pair that is allowed.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "suite_branches.h"

namespace lossgrid {
namespace {

using Setting = std::pair<std::string, std::string>;  // option, value as JSON text

/// Options that tests combine, each at one or more values that are not its default.
const std::vector<Setting>& settings_of(const std::string& kind) {
  static const std::map<std::string, std::vector<Setting>> all{
      {"clipped_pg",
       {{"token_level_loss", "false"},
        {"ratio_clip_min", "0.1"},
        {"ratio_clip_max", "0.28"},
        {"ratio_clip_c", "1.4"},
        {"disable_ppo_ratio", "true"},
        {"force_on_policy_ratio", "true"},
        {"use_cispo", "true"},
        {"sequence_level_importance_ratios", "true"},
        {"reference_policy_kl_penalty", "0.1"},
        {"reference_policy_kl_type", "\"k1\""},
        {"reference_policy_kl_type", "\"k2\""},
        {"kl_input_clamp_value", "0.4"},
        {"kl_input_clamp_value", "null"},
        {"kl_output_clamp_value", "0.05"},
        {"kl_output_clamp_value", "null"},
        {"use_kl_in_reward", "true"},
        {"use_on_policy_kl_approximation", "true"},
        {"use_importance_sampling_correction", "true"},
        {"truncated_importance_sampling_type", "\"tis\""},
        {"truncated_importance_sampling_type", "\"icepop\""},
        {"truncated_importance_sampling_type", "\"seq-mask-tis\""},
        {"positive_example_nll_weight", "0.1"},
        {"entropy_coefficient", "0.05"}}},
      {"dpo",
       {{"reference_policy_kl_penalty", "0.2"},
        {"preference_loss_weight", "0.5"},
        {"sft_loss_weight", "0.1"},
        {"preference_average_log_probs", "true"},
        {"sft_average_log_probs", "true"},
        {"label_smoothing", "0.2"},
        {"ld_alpha", "0.25"},
        {"loss_type", "\"robust\""},
        {"loss_type", "\"hinge\""},
        {"loss_type", "\"ipo\""},
        {"loss_type", "\"exo_pair\""},
        {"loss_type", "\"nca_pair\""},
        {"loss_type", "\"bco_pair\""},
        {"loss_type", "\"sppo_hard\""},
        {"loss_type", "\"apo_zero\""},
        {"loss_type", "\"apo_down\""},
        {"loss_type", "\"discopop\""},
        {"loss_type", "\"sigmoid_norm\""},
        {"loss_type", "\"aot\""},
        {"loss_type", "\"aot_unpaired\""},
        {"discopop_tau", "0.5"},
        {"ipo_average_log_probs", "false"},
        {"f_divergence_type", "\"forward_kl\""},
        {"f_divergence_type", "\"js_divergence\""},
        {"f_divergence_type", "\"alpha_divergence\""},
        {"f_alpha_divergence_coef", "2"},
        {"use_weighting", "true"}}},
      {"cpo",
       {{"beta", "0.5"},
        {"loss_type", "\"simpo\""},
        {"loss_type", "\"hinge\""},
        {"loss_type", "\"ipo\""},
        {"label_smoothing", "0.2"},
        {"simpo_gamma", "1.5"},
        {"alpha", "0.25"},
        {"cpo_alpha", "0.5"},
        {"sft_average_log_probs", "false"}}},
      {"orpo", {{"beta", "0.5"}, {"sft_average_log_probs", "false"}}},
      {"kto",
       {{"beta", "0.5"},
        {"loss_type", "\"apo_zero_unpaired\""},
        {"desirable_weight", "1.5"},
        {"undesirable_weight", "0.5"}}},
      {"nll",
       {{"token_level_loss", "false"},
        {"label_smoothing", "0.1"},
        {"z_loss_coefficient", "0.01"},
        {"loss_type", "\"dft\""}}},
      {"distill",
       {{"kl_type", "\"reverse\""},
        {"kl_type", "\"mixed\""},
        {"kl_type", "\"jsd\""},
        {"jsd_beta", "0.1"},
        {"mixed_kl_weight", "0.2"},
        {"distillation_add_tail", "true"},
        {"loss_mode", "\"forward_kl_topk\""},
        {"log_prob_min_clamp", "-3"},
        {"log_prob_min_clamp", "null"},
        {"loss_max_clamp", "0.1"},
        {"loss_max_clamp", "null"},
        {"zero_outside_topk", "true"}}},
      {"on_policy_distill",
       {{"loss_mode", "\"abs\""},
        {"loss_mode", "\"k2\""},
        {"loss_mode", "\"score\""},
        {"loss_max_clamp", "1.5"},
        {"loss_max_clamp", "null"}}}};
  return all.at(kind);
}

/// Returns suite layouts, in which selections of tokens stand, of which layouts are independent.
const Suite& suite_layouts() {
  static const Suite suite = read_suite(LOSSGRID_SOURCE_DIR "/cases/layouts.json");
  return suite;
}

/// The values of options in a suite or more, defaults included, by objective and option.
using Values = std::map<std::pair<std::string, std::string>, std::set<std::string>>;

void add_values(const Suite& suite, Values& values) {
  for (const CaseSpec& spec : suite.cases) {
    const ObjectiveSpec all = with_all_options(spec.objective);
    for (const auto& [option, value] : all.options) values[{all.kind, option}].insert(value);
  }
}

bool has(const ObjectiveOptions& options, const Setting& setting) {
  const auto option = options.find(setting.first);
  return option != options.end() && option->second == setting.second;
}

bool is_covered(const std::string& kind, const Setting& setting) {
  return std::any_of(suite_ci().cases.begin(), suite_ci().cases.end(), [&](const CaseSpec& spec) {
    return spec.objective.kind == kind && has(spec.objective.options, setting);
  });
}

/// True if the options have the setting; of the losses of a pair, which the tests of `dpo` combine
/// with all other options, any one that is not the default.
bool has_in_pair(const ObjectiveOptions& options, const Setting& setting) {
  const bool is_of_pair_loss = setting.first == "loss_type" || setting.first == "f_divergence_type";
  return is_of_pair_loss ? options.contains(setting.first) : has(options, setting);
}

bool is_pair_covered(const std::string& kind, const Setting& a, const Setting& b) {
  return std::any_of(suite_ci().cases.begin(), suite_ci().cases.end(), [&](const CaseSpec& spec) {
    return spec.objective.kind == kind && has_in_pair(spec.objective.options, a) &&
           has_in_pair(spec.objective.options, b);
  });
}

/// True if the objective takes both settings, together with the options that they need.
bool is_allowed(const std::string& kind, const Setting& a, const Setting& b) {
  ObjectiveOptions options;
  for (const Setting& setting : {a, b}) {
    options[setting.first] = setting.second;
    if (setting.first == "sequence_level_importance_ratios") {
      options["token_level_loss"] = "false";
    }
    if (setting.first == "truncated_importance_sampling_type") {
      options["use_importance_sampling_correction"] = "true";
      options["truncated_importance_sampling_ratio"] = "1.2";
      options["truncated_importance_sampling_ratio_min"] = "0.8";
    }
  }
  try {
    find_objective(kind).make(options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Options, EveryAllowedPairIsInACase) {
  int allowed = 0;
  for (const char* kind :
       {"clipped_pg", "dpo", "cpo", "orpo", "kto", "nll", "distill", "on_policy_distill"}) {
    for (const Setting& a : settings_of(kind)) {
      EXPECT_TRUE(is_covered(kind, a)) << kind << " " << a.first << "=" << a.second;
      for (const Setting& b : settings_of(kind)) {
        if (a.first >= b.first || !is_allowed(kind, a, b)) continue;
        ++allowed;
        EXPECT_TRUE(is_pair_covered(kind, a, b))
            << kind << " " << a.first << "=" << a.second << " " << b.first << "=" << b.second;
      }
    }
  }
  EXPECT_GT(allowed, 180);
}

TEST(Options, EveryOneHasAnotherValueInACase) {
  Values values;
  add_values(suite_ci(), values);
  add_values(suite_layouts(), values);
  for (const ObjectiveEntry* entry : objectives()) {
    for (const OptionDescription& option : entry->document()) {
      const std::set<std::string>& used = values[{entry->kind, option.name}];
      const bool has_another = used.size() > (used.contains(option.fallback) ? 1u : 0u);
      EXPECT_TRUE(has_another) << entry->kind << " " << option.name;
      // Names of rollout_rs are pairs of a level and a statistic, each of which is in a case.
      if (option.name == "rollout_rs") continue;
      for (const std::string& choice : option.choices) {
        const bool is_name = choice.starts_with('"');
        EXPECT_TRUE(!is_name || used.contains(choice))
            << entry->kind << " " << option.name << "=" << choice;
      }
    }
  }
}

TEST(Options, EveryLevelAndStatisticOfARejectionIsInACase) {
  for (const char* rule :
       {"token_k1", "token_k3", "seq_sum_k1", "seq_mean_k1", "seq_mean_k2", "seq_max_k2"}) {
    EXPECT_TRUE(is_covered("clipped_pg", {"rollout_rs", '"' + std::string(rule) + '"'})) << rule;
  }
}

TEST(Options, EverySelectionAndItsBranchesAreInLayouts) {
  const Suite& layouts = suite_layouts();
  for (const Setting& setting : {Setting{"policy_loss", "\"clip_cov\""},
                                 {"clip_cov_ratio", "0.1"},
                                 {"clip_cov_lb", "0.05"},
                                 {"clip_cov_ub", "0.8"},
                                 {"clip_cov_seed", "2"},
                                 {"policy_loss", "\"kl_cov\""},
                                 {"kl_cov_ratio", "0.2"},
                                 {"kl_cov_ratio", "0.01"},  // of less than one token
                                 {"ppo_kl_coef", "0.5"},
                                 {"top_entropy_quantile", "0.3"},
                                 {"top_entropy_quantile", "0"},
                                 {"m2_threshold", "0.02"}}) {
    EXPECT_TRUE(
        std::any_of(layouts.cases.begin(), layouts.cases.end(),
                    [&](const CaseSpec& spec) { return has(spec.objective.options, setting); }))
        << setting.first << setting.second;
  }
  const std::map<std::string, double> largest = largest_shares(layouts);
  for (const char* branch :
       {"clip_cov_below", "clip_cov_above", "clip_cov_clipped", "clip_cov_dropped",
        "clip_cov_spared", "kl_cov_penalised", "kl_cov_free", "top_entropy_kept",
        "top_entropy_dropped", "second_moment_kept", "second_moment_dropped"}) {
    EXPECT_TRUE(largest.contains(branch) && largest.at(branch) > 0) << branch;
  }
}

}  // namespace
}  // namespace lossgrid
