// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg_options.h"

#include <cmath>

#include "harness/core/error.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

KlType kl_type(const std::string& name) {
  return name == "k1" ? KlType::k1 : name == "k2" ? KlType::k2 : KlType::k3;
}

Truncation truncation(const std::optional<std::string>& name) {
  if (!name) return Truncation::none;
  return *name == "tis"      ? Truncation::tis
         : *name == "icepop" ? Truncation::icepop
                             : Truncation::seq_mask_tis;
}

struct Rule {
  bool is_broken;
  const char* text;
};

void require(std::initializer_list<Rule> rules) {
  for (const Rule& rule : rules) {
    if (rule.is_broken) throw_bad_input("clipped_pg: {}", rule.text);
  }
}

void require_values_in_range(const ClippedPgOptions& o) {
  const auto not_positive = [](const std::optional<double>& value) { return value && *value <= 0; };
  require({
      {o.ratio_clip_min < 0 || o.ratio_clip_min > 1, "ratio_clip_min must be in [0, 1]"},
      {o.ratio_clip_max < 0, "ratio_clip_max must not be negative"},
      {o.ratio_clip_c && *o.ratio_clip_c <= 1, "ratio_clip_c must be above 1, or null"},
      {not_positive(o.kl_input_clamp_value), "kl_input_clamp_value must be above 0, or null"},
      {not_positive(o.kl_output_clamp_value), "kl_output_clamp_value must be above 0, or null"},
      {o.positive_example_nll_weight < 0, "positive_example_nll_weight must not be negative"},
  });
}

void require_ratios_fit(const ClippedPgOptions& o) {
  require({
      {o.sequence_level_importance_ratios && o.token_level_loss,
       "sequence_level_importance_ratios = true needs token_level_loss = false"},
      {o.use_cispo && o.disable_ppo_ratio, "use_cispo = true excludes disable_ppo_ratio = true"},
      {o.use_cispo && o.force_on_policy_ratio,
       "use_cispo = true excludes force_on_policy_ratio = true"},
      {o.use_cispo && o.sequence_level_importance_ratios,
       "use_cispo = true excludes sequence_level_importance_ratios = true"},
      {o.use_cispo && o.ratio_clip_c, "use_cispo = true excludes a ratio_clip_c"},
      {o.use_cispo && !o.token_level_loss, "use_cispo = true excludes token_level_loss = false"},
  });
}

void require_truncation_fits(const ClippedPgOptions& o) {
  const std::optional<double>& ratio = o.truncated_importance_sampling_ratio;
  const std::optional<double>& ratio_min = o.truncated_importance_sampling_ratio_min;
  require({
      {!o.truncates() && ratio,
       "truncated_importance_sampling_ratio needs a truncated_importance_sampling_type"},
      {!o.truncates() && ratio_min,
       "truncated_importance_sampling_ratio_min needs a truncated_importance_sampling_type"},
  });
  if (!o.truncates()) return;
  require({
      {!o.use_importance_sampling_correction,
       "truncated_importance_sampling_type needs use_importance_sampling_correction = true"},
      {!ratio || *ratio <= 0,
       "truncated_importance_sampling_type needs truncated_importance_sampling_ratio above 0"},
      {o.truncated_importance_sampling_type == Truncation::icepop && !ratio_min,
       "truncated_importance_sampling_type = \"icepop\" needs a "
       "truncated_importance_sampling_ratio_min"},
      {o.masks_sequences() && !ratio_min,
       "truncated_importance_sampling_type = \"seq-mask-tis\" needs a "
       "truncated_importance_sampling_ratio_min"},
      {ratio && ratio_min && *ratio_min > *ratio,
       "truncated_importance_sampling_ratio_min must not be above "
       "truncated_importance_sampling_ratio"},
      {o.masks_sequences() && o.sequence_level_importance_ratios,
       "truncated_importance_sampling_type = \"seq-mask-tis\" excludes "
       "sequence_level_importance_ratios = true"},
  });
}

}  // namespace

ClippedPgOptions ClippedPgOptions::from(const ObjectiveOptions& options) {
  return read(OptionReader(options, "clipped_pg"));
}

ClippedPgOptions ClippedPgOptions::read(const OptionReader& reader) {
  ClippedPgOptions o;
  o.token_level_loss = reader.flag("token_level_loss", o.token_level_loss);
  o.ratio_clip_min = reader.number("ratio_clip_min", o.ratio_clip_min);
  o.ratio_clip_max = reader.number("ratio_clip_max", o.ratio_clip_max);
  o.ratio_clip_c = reader.optional_number("ratio_clip_c", o.ratio_clip_c);
  o.disable_ppo_ratio = reader.flag("disable_ppo_ratio", o.disable_ppo_ratio);
  o.force_on_policy_ratio = reader.flag("force_on_policy_ratio", o.force_on_policy_ratio);
  o.use_cispo = reader.flag("use_cispo", o.use_cispo);
  o.sequence_level_importance_ratios =
      reader.flag("sequence_level_importance_ratios", o.sequence_level_importance_ratios);
  o.reference_policy_kl_penalty =
      reader.number("reference_policy_kl_penalty", o.reference_policy_kl_penalty);
  o.reference_policy_kl_type =
      kl_type(reader.one_of("reference_policy_kl_type", {"k1", "k2", "k3"}, "k3"));
  o.kl_input_clamp_value = reader.optional_number("kl_input_clamp_value", o.kl_input_clamp_value);
  o.kl_output_clamp_value =
      reader.optional_number("kl_output_clamp_value", o.kl_output_clamp_value);
  o.use_kl_in_reward = reader.flag("use_kl_in_reward", o.use_kl_in_reward);
  o.use_on_policy_kl_approximation =
      reader.flag("use_on_policy_kl_approximation", o.use_on_policy_kl_approximation);
  o.use_importance_sampling_correction =
      reader.flag("use_importance_sampling_correction", o.use_importance_sampling_correction);
  o.truncated_importance_sampling_type = truncation(reader.optional_one_of(
      "truncated_importance_sampling_type", {"tis", "icepop", "seq-mask-tis"}));
  o.truncated_importance_sampling_ratio = reader.optional_number(
      "truncated_importance_sampling_ratio", o.truncated_importance_sampling_ratio);
  o.truncated_importance_sampling_ratio_min = reader.optional_number(
      "truncated_importance_sampling_ratio_min", o.truncated_importance_sampling_ratio_min);
  o.positive_example_nll_weight =
      reader.number("positive_example_nll_weight", o.positive_example_nll_weight);
  o.entropy_coefficient = reader.number("entropy_coefficient", o.entropy_coefficient);
  reader.require_all_known();
  require_values_in_range(o);
  require_ratios_fit(o);
  require_truncation_fits(o);
  return o;
}

namespace {

/// Returns r of the given sign where k3, e^r - 1 - r, is `bound` > 0, by Newton's method, which
/// converges from any r of that sign: k3 is convex.
double k3_root(double bound, double sign) {
  double r = sign > 0 ? std::log1p(bound) : -(bound + 1);
  for (int step = 0; step < 60; ++step) r -= (std::expm1(r) - r - bound) / std::expm1(r);
  return r;
}

/// Returns the distances at which the KL meets its clamps.
Edges kl_edges(const ClippedPgOptions& o) {
  Edges edges;
  for (const double sign : {1.0, -1.0}) {
    if (o.kl_input_clamp_value) edges.add(sign * *o.kl_input_clamp_value);
    if (!o.kl_output_clamp_value) continue;
    const double bound = *o.kl_output_clamp_value;
    edges.add(o.reference_policy_kl_type == KlType::k1   ? sign * bound
              : o.reference_policy_kl_type == KlType::k2 ? sign * std::sqrt(2 * bound)
                                                         : k3_root(bound, sign));
  }
  return edges;
}

}  // namespace

ObjectiveNeeds ClippedPgOptions::needs() const {
  ObjectiveNeeds needs;
  const auto set = [&](TokenInput which, bool is_needed) {
    needs.inputs[static_cast<std::size_t>(which)] = is_needed;
  };
  set(TokenInput::advantages, true);
  set(TokenInput::prev_logprobs, !force_on_policy_ratio);
  set(TokenInput::generation_logprobs, true);
  set(TokenInput::reference_policy_logprobs, kl_penalty() != 0);
  needs.rewards = positive_example_nll_weight > 0;
  if (entropy_coefficient != 0) needs.terms.add(RowTerm::entropy);
  needs.edges_by_unit = sequence_ratio() || masks_sequences();
  if (clips()) {
    if (ratio_clip_min < 1) needs.log_ratios.add(std::log(1 - ratio_clip_min));
    needs.log_ratios.add(std::log(1 + ratio_clip_max));
    if (ratio_clip_c) needs.log_ratios.add(std::log(*ratio_clip_c));
  }
  if (truncates()) {
    const auto& low = truncated_importance_sampling_ratio_min;
    if (low && *low > 0) needs.log_weights.add(std::log(*low));
    needs.log_weights.add(std::log(*truncated_importance_sampling_ratio));
  }
  needs.reference_offsets = kl_edges(*this);
  return needs;
}

}  // namespace lossgrid
